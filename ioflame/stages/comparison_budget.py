"""What a comparison's profiles say of the change in latency: the slices of each session's runs, for the budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ground.results.categories import read_categories
from ground.results.comparison import Comparison, ComparisonRun, Session
from ground.results.differences import Budget
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.results.record import Window
from ground.results.run import open_run
from ground.results.states import STATES
from ioflame.analysis.compare.budget import ArmSlices, latency_budget
from ioflame.analysis.compare.own_reads import of_the_process
from ioflame.analysis.metric_intervals import slice_columns
from ioflame.analysis.serving_threads import serving_threads

# One session says nothing of the next, however many seconds it has.
_FEWEST_SESSIONS = 2

Slices = list[dict[str, float]]


def budget_of(going: ComparisonRun, arm: str) -> Budget | None:
    """The change from the base to the arm, of the sessions that have a profile of both; None of fewer than two."""
    record = going.record
    found: list[tuple[Session, dict[str, Path]]] = []
    for session in record.whole_sessions():
        runs = {side: going.run_with(Files.CATEGORIES, session, side) for side in (record.base.name, arm)}
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
    window = next(window for window in run.record.windows if window.kind == "offcpu")
    queries = window.counters.queries or 0.0
    return [{"queries": queries, **{state: sum(one.off_ns.get(state, 0) for one in serving) / 1e3 for state in STATES}}]
