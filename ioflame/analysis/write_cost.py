"""What watching writes costs each of them: measured, by turns with and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.checks import Check, Verdict
from ground.results.interval import Interval
from ground.results.write_ladder import WriteHalf, WriteLadder, WriteTurn
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
