"""Of the write path: what watching it cost a write, and why writes were held back within a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.checks import Check, Verdict
from ground.results.interval import Interval
from ground.results.jobs import RunJobs, Stall
from ground.results.write_ladder import StallCause, WriteHalf, WriteLadder, WriteTurn
from ioflame.analysis.bootstrap import jackknife_error
from ioflame.analysis.quantiles import t_quantile

# Of a write: above it the stages tell of their probes.
_DEAR = 0.20


def write_cost(ladder: WriteLadder) -> Interval | None:
    """ns by which a write takes longer while it is watched, with the 95 % interval by the turns (jackknife, with t).

    None of fewer than two turns.

    Both halves of a turn have the traps of a write's own entry and return, which its duration is taken at: what these
    take is added, as it was measured on functions of the loader's own.
    """
    turns = [turn for turn in ladder.turns if turn.unwatched.count and turn.watched.count]
    if len(turns) < 2:
        return None
    taken = _longer(turns)
    without = [_longer([*turns[:place], *turns[place + 1 :]]) for place in range(len(turns))]
    own, half = ladder.write_traps_ns, t_quantile(0.95, len(turns) - 1) * jackknife_error(without)
    return Interval(taken + own, taken + own - half, taken + own + half, len(turns))


def _longer(turns: Sequence[WriteTurn]) -> float:
    """Of watched writes against unwatched ones, on average."""
    return _mean([turn.watched for turn in turns]) - _mean([turn.unwatched for turn in turns])


def _mean(halves: Sequence[WriteHalf]) -> float:
    return sum(half.sum_ns for half in halves) / sum(half.count for half in halves)


def write_cost_checks(ladder: WriteLadder) -> Iterator[Check]:
    if not ladder.finished:
        return
    mean, cost = ladder.total_ns / ladder.finished, write_cost(ladder)
    if cost is None:
        taken = mean - ladder.pilot.mean_ns if ladder.pilot.mean_ns else 0.0
        value = (
            f"a write took {ladder.pilot.mean_ns / 1e3:.1f} us in the second before the window, watched at its entry "
            f"and return alone, and {mean / 1e3:.1f} us in it; the probes' own part is at least "
            f"{ladder.probe_ns / 1e3:.1f} us"
        )
        dear = max(taken, ladder.probe_ns) > _DEAR * mean
        means = "one second tells roughly: ioflame ebpf writes measures it by turns"
    else:
        unwatched = _mean([turn.unwatched for turn in ladder.turns]) - ladder.write_traps_ns
        value = (
            f"a write takes {cost.estimate / 1e3:.1f} us longer while it is watched ({cost.low / 1e3:.1f} to "
            f"{cost.high / 1e3:.1f} us, by {cost.n} turns), {unwatched / 1e3:.1f} us unwatched"
        )
        dear = cost.estimate > _DEAR * (unwatched + cost.estimate)
        means = ""
    if dear:
        means = "; ".join(
            filter(None, ["the stages are those of watched writes, and are made of their probes in part", means])
        )
    yield Check(
        "writes cost",
        Verdict.WARN if dear else Verdict.OK,
        value,
        means,
        "--stages few" if dear and ladder.full else "",
    )


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
