"""Background jobs as the time line of a page draws them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ground.results.jobs import Job, RunJobs, Stall, TreeState, job_order
from viz.svg.job_lanes import Bar, Lane
from viz.svg.timeline import Point, TimePanel, TimeSeries, second_of

_MIB = 1 << 20


def job_lanes(recorded: RunJobs | None, begun_ns: int | None, whole: float) -> list[Lane]:
    """whole: seconds of the axis, where those end that still ran"""
    if recorded is None or begun_ns is None:
        return []

    def second(moment: float | None) -> float:
        return whole if moment is None else second_of(recorded.monotonic_ns(moment), begun_ns)

    found = recorded.found
    kinds = sorted({(job.kind, job.level) for job in found.jobs}, key=lambda one: job_order(*one))
    lanes = []
    for kind, level in kinds:
        bars = [_job(job, second) for job in found.jobs if (job.kind, job.level) == (kind, level)]
        lanes.append(Lane("flush" if kind == "flush" else f"to L{level}" if level is not None else kind, kind, bars))
    for name, stopped in (("stopped", True), ("slowed", False)):
        stalls = [_stall(stall, second) for stall in found.stalls if stall.stopped == stopped]
        if stalls:
            lanes.append(Lane(name, "held", stalls))
    return lanes


def _job(job: Job, second: Callable[[float | None], float]) -> Bar:
    begin, end = second(job.begin), second(job.end)
    levels = "".join(f" L{level}" for level in job.levels_in)
    words = f"{job.kind} {job.number}{', from' + levels if levels else ''}, {job.reason}\n"
    words += f"{end - begin:.3f} s, {job.bytes_in / _MIB:,.1f} MiB in, {job.bytes_out / _MIB:,.1f} MiB out"
    return Bar(begin, end, words + ("" if job.cpu_us is None else f", {job.cpu_us / 1e3:,.0f} ms of CPU"))


def _stall(stall: Stall, second: Callable[[float | None], float]) -> Bar:
    begin, end = second(stall.begin), second(stall.end)
    return Bar(
        begin, end, f"writes {'stopped' if stall.stopped else 'slowed down'}: {stall.cause}, {end - begin:.3f} s"
    )


def tree_panels(recorded: RunJobs | None, begun_ns: int | None, whole: float) -> list[TimePanel]:
    """For how much of the time writers were held back; and of the column family with the most jobs files of L0,
    memtables that wait, and bytes before compactions."""
    if recorded is None or begun_ns is None:
        return []
    held_back, states = _held_back(recorded, begun_ns), recorded.found.states
    if not states:
        return held_back
    families = [state.column_family for state in states]
    family = max(sorted(set(families)), key=families.count)
    own = [state for state in states if state.column_family == family]

    def series(name: str, value: Callable[[TreeState], float | None]) -> TimeSeries:
        points: list[Point] = []
        known = [(state, found) for state in own if (found := value(state)) is not None]
        for place, (state, found) in enumerate(known):
            begin = second_of(recorded.monotonic_ns(state.at), begun_ns)
            last = place + 1 == len(known)
            end = whole if last else second_of(recorded.monotonic_ns(known[place + 1][0].at), begun_ns)
            points.append(Point(begin, max(begin, end), found))
        return TimeSeries(name, points)

    files = series("L0 files", lambda state: state.files[0] if state.files else None)
    memtables = series("memtables", lambda state: state.immutable_memtables)
    panels = [
        TimePanel("tree, after each job", ",.0f", [files, memtables]),
        TimePanel("pending, MiB", ",.0f", [series("", lambda state: _mib(state.pending_bytes))]),
    ]  # fmt: skip
    return [*held_back, *(panel for panel in panels if any(one.points for one in panel.series))]


def _held_back(recorded: RunJobs, begun_ns: int) -> list[TimePanel]:
    """None where writers never were. A count that falls is of another process: nothing is drawn between the two."""
    points = []
    for (before, first), (at, last) in itertools.pairwise(recorded.found.held_back):
        begin, end = (second_of(recorded.monotonic_ns(moment), begun_ns) for moment in (before, at))
        if last >= first and end > begin:
            # One writer waits at a time; the log has the moment of each count a few ms early or late.
            points.append(Point(begin, end, min(100.0, 100 * (last - first) / (end - begin))))
    return [TimePanel("held back, %", ",.1f", [TimeSeries("", points)])] if any(one.value for one in points) else []


def _mib(found: int | None) -> float | None:
    return None if found is None else found / _MIB
