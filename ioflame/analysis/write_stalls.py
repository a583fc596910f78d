"""Why writes were held back within a window: the stalls that the engine's own log has of it, by their cause."""

from __future__ import annotations

from ground.results.jobs import RunJobs, Stall
from ground.results.write_ladder import StallCause


def stall_causes(recorded: RunJobs, start_ns: int, end_ns: int) -> list[StallCause]:
    """Stalls that overlap the window (CLOCK_MONOTONIC ns), by their part in it; the longest cause first.

    One whose end the log does not have lasts until the next one of its column family, the log's end or the window's.
    """
    groups: dict[tuple[bool, str, str], list[tuple[int, int]]] = {}
    for stall in recorded.found.stalls:
        begin, end = recorded.monotonic_ns(stall.begin), _end_ns(recorded, stall)
        inside = max(begin, start_ns), min(end, end_ns)
        if inside[0] < inside[1]:
            groups.setdefault((stall.stopped, stall.cause, stall.column_family), []).append(inside)
    found = []
    for (stopped, cause, family), parts in groups.items():
        lengths = [(end - begin) / 1e9 for begin, end in parts]
        first = (min(begin for begin, _ in parts) - start_ns) / 1e9
        found.append(StallCause(stopped, cause, family, len(parts), sum(lengths), max(lengths), first))
    return sorted(found, key=lambda one: -one.seconds)


def _end_ns(recorded: RunJobs, stall: Stall) -> int:
    if stall.end is not None:
        return recorded.monotonic_ns(stall.end)
    later = (
        one.begin
        for one in recorded.found.stalls
        if one.begin > stall.begin and one.column_family == stall.column_family
    )
    return recorded.monotonic_ns(min(later, default=recorded.found.until))
