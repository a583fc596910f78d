"""What observers' windows of a comparison's sessions say: accounts row by row, and figures with a value a process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ground.results.accounts import Account, accounts_in
from ground.results.comparison import ComparisonRun, Session
from ground.results.differences import AccountChange, Decision
from ground.results.files import Files
from ground.results.metrics import OBSERVED
from ground.results.run import open_run
from ioflame.analysis.compare.accounts import account_changes
from ioflame.analysis.compare.figures import BlockLogs
from ioflame.analysis.compare.nested import difference, sums_of
from ioflame.analysis.compare.verdict import Costs, VerdictRule, decide


def accounts_of(going: ComparisonRun, arm: str) -> list[AccountChange]:
    """The changes from the base to the arm."""
    base = going.record.base.name
    sessions = [(_accounts(going, one, base), _accounts(going, one, arm)) for one in going.record.whole_sessions()]
    return account_changes(sessions)


def observed_decisions(going: ComparisonRun, arm: str, rule: VerdictRule, costs: Costs) -> dict[str, Decision]:
    """By figure. A session's windows of base and arm are a pair, as the windows of a block are, and its only one."""
    record, found = going.record, {}
    for name in OBSERVED:
        pairs = [
            (of_base, of_arm)
            for session in record.whole_sessions()
            for of_base, of_arm in [[_figure(going, session, side, name) for side in (record.base.name, arm)]]
            if of_base and of_arm
        ]
        if not pairs:
            continue
        logs = [BlockLogs(math.log(of_arm / of_base), (1, 0)) for of_base, of_arm in pairs]
        change = difference([sums_of([one], 2) for one in logs], rule.confidence)
        one = decide(name, change, rule, costs, base=record.base.name, arm=arm, bars=record.not_comparable)
        of_base = math.exp(sum(math.log(value) for value, _ in pairs) / len(pairs))
        ratio = math.exp(sum(log.log for log in logs) / len(logs))
        found[name] = replace(one, base_value=of_base, arm_value=of_base * ratio)
    return found


def _accounts(going: ComparisonRun, session: Session, arm: str) -> Mapping[str, Account]:
    """Of the arm's process in the session that was observed; none where none was."""
    path = going.run_with(Files.ACCOUNTS, session, arm)
    return {one.name: one for one in accounts_in(path)} if path is not None else {}


def _figure(going: ComparisonRun, session: Session, arm: str, name: str) -> float | None:
    path = going.run_with(Files.ACCOUNTS, session, arm)
    return open_run(path).record.metrics.get(name) if path is not None else None
