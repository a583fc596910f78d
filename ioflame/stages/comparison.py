"""From the windows of a comparison's record to the verdicts on every arm, with what its observers' windows say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ground.results.accounts import Account, accounts_in
from ground.results.categories import read_categories
from ground.results.comparison import Comparison, ComparisonRun, Session
from ground.results.differences import AccountChange, Budget, Decision, Outcome, PlanRow, Variances
from ground.results.files import Files
from ground.results.metrics import BACKGROUND, DECIDING, MODE_METRIC, OBSERVED, window_metrics
from ground.results.off_cpu import read_off_cpu
from ground.results.record import Window
from ground.results.run import open_run
from ground.results.states import STATES
from ground.results.verdicts import VERDICT, ArmVerdict, Verdicts
from ground.system.atomic_files import write_json
from ioflame.analysis.compare.accounts import account_changes
from ioflame.analysis.compare.budget import ArmSlices, latency_budget
from ioflame.analysis.compare.figures import ArmWindow, BlockLogs, of_the_process
from ioflame.analysis.compare.figures import Session as Windows
from ioflame.analysis.compare.nested import difference, sums_of
from ioflame.analysis.compare.planning import plan_table
from ioflame.analysis.compare.verdict import (
    ArmsCompared,
    Costs,
    VerdictRule,
    among_arms,
    among_figures,
    compare,
    decide,
)
from ioflame.analysis.counted_verdicts import against, which_to_believe
from ioflame.analysis.metric_intervals import slice_columns
from ioflame.analysis.wall_clock import serving_threads

# Of QPS on a shared disk that is neither quiet nor bad: 6 % a block, 1 % from session to session.
ASSUMED = Variances(0.01, 0.06, 0.06)
# Of a process, its warm-up included.
_START_SECONDS = 15.0
# One session says nothing of the next, however many seconds it has.
_FEWEST_SESSIONS = 2

Slices = list[dict[str, float]]


@dataclass(frozen=True)
class Judged:
    """arms: every arm but base and twin, against the base"""

    rule: VerdictRule
    arms: list[ArmsCompared]

    @property
    def decided(self) -> bool:
        """Nothing more is to be measured for any of them."""
        return all(one.decided for one in self.arms)


def judge(record: Comparison) -> Judged:
    """Decides every figure of every arm by the plan's rule, from the whole sessions."""
    sessions = windows_of(record)
    rule, costs = rule_of(record), costs_of(record)
    twin = record.twin
    found = [
        compare(
            sessions, record.base.name, arm.name, rule, costs,
            twin=twin.name if twin else None, bars=record.not_comparable,
        )
        for arm in record.arms[1:]
        if not arm.twin_of
    ]  # fmt: skip
    together = among_arms([one.decisions for one in found])
    return Judged(rule, [replace(one, decisions=kept) for one, kept in zip(found, together, strict=True)])


def rule_of(record: Comparison) -> VerdictRule:
    return VerdictRule(record.plan.delta, tuple(record.plan.looks))


def costs_of(record: Comparison) -> Costs:
    """What a session and a block took, by the sessions that are whole; by the plan before there is one."""
    plan = record.plan
    windows = 2 * len(record.arms)
    # Where one process is alive at a time, each window has one of its own.
    started = _START_SECONDS * (plan.schedule == "process")
    block = windows * (plan.window_seconds + plan.dropped_seconds + started)
    whole = record.whole_sessions()
    if not whole:
        starts = 0.0 if started else _START_SECONDS
        return Costs(len(record.arms) * (plan.window_seconds * len(plan.collect) + starts), block)
    took = sum(session.seconds for session in whole) / len(whole)
    made = sum(len(session.blocks) for session in whole) / len(whole)
    return Costs(max(took - made * block, 1.0), block)


def blocks_within(record: Comparison, seconds: float, sessions: int) -> int:
    """Of each of so many sessions, so that all of them are done within the time; below 1 where that is too short."""
    costs = costs_of(record)
    return math.floor((seconds / sessions - costs.session_seconds) / costs.block_seconds)


def windows_of(record: Comparison) -> list[Windows]:
    """Sessions of blocks of windows with their figures; a block in which the client told no queries has none."""
    threads = {arm.name: arm.threads for arm in record.arms}
    return [
        [
            [ArmWindow(w.arm, window_metrics([of_the_process(w.window)], threads[w.arm])) for w in block.windows]
            for block in session.counted()
        ]
        for session in record.whole_sessions()
    ]


def plans_of(record: Comparison) -> list[tuple[str, Variances, bool, list[PlanRow]]]:
    """What it takes to see some differences: by figure the variances, whether they are this host's, and the rows.

    They are those of the sessions that are whole, of the twin where there is one; assumed ones before.
    """
    costs, step = costs_of(record), sum(not arm.twin_of for arm in record.arms)
    found = judge(record).arms if record.whole_sessions() else []
    seen = {
        name: decision.difference.variances
        for one in found
        for name, decision in (one.twin or one.decisions).items()
        if name in DECIDING and decision.difference is not None
    }
    variances = seen or dict.fromkeys(DECIDING[:1], ASSUMED)
    return [(name, one, bool(seen), plan_table(one, costs, block_step=step)) for name, one in variances.items()]


def verdicts_of(study: ComparisonRun) -> Verdicts:
    """Everything that is said of a comparison; also written to its `verdict.json`."""
    record = study.record
    judged = judge(record)
    whole = record.whole_sessions()
    found = Verdicts(
        sentence=_sentence(record, judged),
        delta=record.plan.delta,
        sessions=len(whole),
        blocks=sum(1 for session in whole for _ in session.counted()),
        looks=record.plan.looks,
        seed=record.plan.seed,
        rule=record.plan.rule,
        seconds=sum(session.seconds for session in record.sessions),
        arms=[_arm_verdict(study, judged.rule, one) for one in judged.arms],
        differing=record.differing,
        bars=record.not_comparable,
        disturbed=_disturbed(record),
        counted=_counted(study, judged),
    )
    write_json(study.directory / VERDICT, found)
    return found


def _arm_verdict(study: ComparisonRun, rule: VerdictRule, one: ArmsCompared) -> ArmVerdict:
    observed = observed_decisions(study, one.arm, rule, costs_of(study.record))
    return ArmVerdict(
        base=one.base,
        arm=one.arm,
        decisions=among_figures({**one.decisions, **observed}) if observed else dict(one.decisions),
        twin=dict(one.twin),
        position=dict(one.position),
        budget=budget_of(study, one.arm),
        accounts=accounts_of(study, one.arm),
    )


def _sentence(record: Comparison, judged: Judged) -> str:
    """The verdict on every arm, in a line."""
    if record.not_comparable:
        return f"not comparable ({'; '.join(record.not_comparable)})"
    parts = []
    for one in judged.arms:
        told = [
            decision.sentence
            for name, decision in one.decisions.items()
            if name in DECIDING or (name == BACKGROUND and decision.outcome in (Outcome.REGRESSED, Outcome.IMPROVED))
        ]
        parts.append(f"{one.arm} against {one.base}: {'; '.join(told) or 'undecided (nothing was measured)'}")
    return " | ".join(parts)


def _counted(study: ComparisonRun, judged: Judged) -> list[str]:
    """Nothing where none was counted beside it."""
    beside = study.count()
    if beside is None:
        return []
    told = []
    for one in judged.arms:
        # Counts hold no instruction of the kernel.
        time = one.decisions.get(MODE_METRIC["user"])
        for name, of in beside.operations.items():
            count = against(of.arms[one.base], of.arms[one.arm])
            told.append(f"{one.arm}, {name}: {which_to_believe(time, count)}")
    return told


def _disturbed(record: Comparison) -> list[str]:
    """Disturbed blocks: those that were repeated, and those kept because the repeat limit was reached."""
    dropped = [block.disturbed for session in record.sessions for block in session.blocks if block.dropped]
    kept = [block.disturbed for one in record.whole_sessions() for block in one.counted() if block.disturbed]
    return [f"repeated: {words}" for words in dropped] + [f"kept, repeat limit reached: {words}" for words in kept]


def accounts_of(study: ComparisonRun, arm: str) -> list[AccountChange]:
    """The changes from the base to the arm."""
    base = study.record.base.name
    sessions = [(_accounts(study, one, base), _accounts(study, one, arm)) for one in study.record.whole_sessions()]
    return account_changes(sessions)


def observed_decisions(study: ComparisonRun, arm: str, rule: VerdictRule, costs: Costs) -> dict[str, Decision]:
    """By figure. A session's windows of base and arm are a pair, as the windows of a block are, and its only one."""
    record, found = study.record, {}
    for name in OBSERVED:
        pairs = [
            (of_base, of_arm)
            for session in record.whole_sessions()
            for of_base, of_arm in [[_figure(study, session, side, name) for side in (record.base.name, arm)]]
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


def _accounts(study: ComparisonRun, session: Session, arm: str) -> Mapping[str, Account]:
    """Of the arm's process in the session that was observed; none where none was."""
    path = study.run_with(Files.ACCOUNTS, session, arm)
    return {one.name: one for one in accounts_in(path)} if path is not None else {}


def _figure(study: ComparisonRun, session: Session, arm: str, name: str) -> float | None:
    path = study.run_with(Files.ACCOUNTS, session, arm)
    return open_run(path).record.metrics.get(name) if path is not None else None


def budget_of(study: ComparisonRun, arm: str) -> Budget | None:
    """The change from the base to the arm, of the sessions that have a profile of both; None of fewer than two."""
    record = study.record
    found: list[tuple[Session, dict[str, Path]]] = []
    for session in record.whole_sessions():
        runs = {side: study.run_with(Files.CATEGORIES, session, side) for side in (record.base.name, arm)}
        known = {side: path for side, path in runs.items() if path is not None}
        if len(known) == len(runs):
            found.append((session, known))
    if len(found) < _FEWEST_SESSIONS:
        return None
    paths = [path for _, runs in found for path in runs.values()]
    # Waits come from one source only: the off-CPU windows where every run has one, else the plain counters.
    traced = all((path / Files.OFF_CPU).exists() for path in paths)
    categories = list(dict.fromkeys(row.name for path in paths for row in read_categories(path).rows if row.weight))

    def slices(session: Session, side: str, path: Path) -> ArmSlices:
        return _slices(record, session, side, path, categories, traced)

    base = record.base.name
    pairs = [(slices(one, base, runs[base]), slices(one, arm, runs[arm])) for one, runs in found]
    return latency_budget(pairs, seed=record.plan.seed)


def _slices(
    record: Comparison, session: Session, arm: str, run: Path, categories: Sequence[str], traced: bool
) -> ArmSlices:
    seconds = [
        of_the_process(second)
        for block in session.counted()
        for slot in block.windows
        if slot.arm == arm
        for second in slot.seconds
    ]
    view = read_categories(run)
    names = [row.name for row in view.rows]
    profile = [{**dict.fromkeys(categories, 0.0), **_named(names, second)} for second in view.slices if any(second)]
    waits = _traced_waits(run) if traced else _counted_waits(seconds)
    return ArmSlices(slice_columns(seconds, record.arm(arm).threads), profile, [waits])


def _named(names: Sequence[str], weights: Sequence[int]) -> dict[str, float]:
    return {name: float(weight) for name, weight in zip(names, weights, strict=True) if weight}


def _counted_waits(seconds: Sequence[Window]) -> Slices:
    """By the scheduler's and the device's counters of the plain windows themselves; where a workload writes, these are
    not a query's alone, and there are no waits."""
    counted = [second.counters for second in seconds if second.counters.queries]
    return [
        {"queries": counters.queries or 0.0}
        | ({} if counters.roles else {
            "run queue": counters.runqueue_wait_ns / 1e3, "device": counters.storage_read_ms * 1e3,
        })
        for counters in counted
    ]  # fmt: skip


def _traced_waits(directory: Path) -> Slices:
    """Of the off-CPU window: each state of the threads that answer queries, us."""
    run = open_run(directory)
    off = read_off_cpu(run.path(Files.OFF_CPU))
    serving = serving_threads(off, run.record)
    queries = run.record.queries_in("offcpu") or 0.0
    return [{"queries": queries, **{state: sum(one.off_ns.get(state, 0) for one in serving) / 1e3 for state in STATES}}]
