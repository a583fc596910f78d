"""Accounts and p99 of a comparison: from the run directories of its sessions to changes and a verdict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ground.results.accounts import Account, Accounts
from ground.results.comparison import ComparisonRun
from ground.results.differences import Outcome
from ground.results.files import Files
from ground.results.run import open_run
from ground.system.atomic_files import write_json
from ioflame.analysis.compare.verdict import Costs, VerdictRule
from ioflame.stages.comparison import verdicts_of
from ioflame.stages.comparison_accounts import accounts_of, observed_decisions
from tests.ioflame.store.stored import made_comparison

# us of a write, and of p99, of the base; a session is up to a half slower than another.
STAGES = {"memtable": 20.0, "log": 80.0}
P99_US = 900.0
RULE, COSTS = VerdictRule(0.02, (4, 6)), Costs(20.0, 24.0)


def compared(place: Path, log: float = 1.0, p99: float = 1.0) -> ComparisonRun:
    """log, p99: how much longer they are in B; the twin was not observed"""
    going = ComparisonRun.open(made_comparison(place))
    dice = random.Random(3)
    for session in going.record.sessions:
        host = 1 + dice.random() / 2
        for process in session.processes:
            if process.arm == "A2":
                continue
            more = (log, p99) if process.arm == "B" else (1.0, 1.0)
            run = open_run(place / process.directory)
            run.record.metrics["p99"] = P99_US * host * more[1] * dice.gauss(1, 0.01)
            run.save()
            writes = 1000.0 * dice.randint(20, 40)
            times = {**STAGES, "log": STAGES["log"] * more[0]}
            rows = {name: us * host * dice.gauss(1, 0.01) * writes for name, us in times.items()}
            write_json(run.path(Files.ACCOUNTS), Accounts([Account("writepath", writes, rows)]))
    return going


def test_what_changed_is_told_row_by_row_and_as_a_verdict_on_p99(tmp_path: Path) -> None:
    going = compared(tmp_path, log=1.25, p99=1.5)
    (change,) = accounts_of(going, "B")
    rows = {row.name: row for row in change.rows}
    assert change.sessions == 6 and {name for name, row in rows.items() if row.seen} == {"all", "log"}
    assert rows["log"].change == pytest.approx(0.25 * rows["log"].base, rel=0.1)
    p99 = observed_decisions(going, "B", RULE, COSTS)["p99"]
    assert p99.outcome is Outcome.REGRESSED and p99.difference is not None
    assert p99.difference.low < 1.5 < p99.difference.high and p99.difference.sessions == 6
    assert p99.base_value is not None and p99.arm_value == pytest.approx(p99.base_value * p99.difference.ratio)
    told = verdicts_of(going).arms[0]
    assert told.accounts == [change] and told.decisions["p99"].outcome is Outcome.REGRESSED


def test_without_a_difference_there_is_none_and_of_the_twin_nothing(tmp_path: Path) -> None:
    going = compared(tmp_path)
    (change,) = accounts_of(going, "B")
    assert not [row for row in change.rows if row.seen]
    # Sessions differ by half, the arms of one by 1 %.
    assert observed_decisions(going, "B", VerdictRule(0.05, (4, 6)), COSTS)["p99"].outcome is Outcome.SAME
    assert accounts_of(going, "A2") == [] and observed_decisions(going, "A2", RULE, COSTS) == {}


def test_what_bars_a_verdict_bars_that_on_p99(tmp_path: Path) -> None:
    going = compared(tmp_path, p99=1.5)
    going.record.not_comparable.append("another kernel")
    assert observed_decisions(going, "B", RULE, COSTS)["p99"].outcome is Outcome.NOT_COMPARABLE
