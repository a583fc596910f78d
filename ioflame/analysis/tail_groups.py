"""Slow queries beside median ones by sums over blocks of time, with intervals.

`GroupSums`: figures of fixed groups. `ScoredGroups`: of groups that follow from the same data as their means, so a
resample draws both anew: blocks of time with replacement, then the cuts by rank, then the means. Samples of one block
are not taken as independent (bootstrap over blocks; Efron 1979, Kuensch 1989); both groups of a resample are of the
same blocks, so what a block does to both cancels.
"""

from __future__ import annotations

import operator
import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from ground.results.interval import Interval
from ground.results.query_records import QueryRecord
from ioflame.analysis.bootstrap import Draws, Resamples

SLOW, MEDIAN = "slow", "median"
# Of fewer blocks no interval can be had.
_FEWEST = 8

Sums = Callable[[str], float]
_RESAMPLES = 600
# What sums of many weights may be off by.
_ROUNDING = 1e-9
# A row's kind, and where: "" for kinds that have no place.
Row = tuple[str, str]


@dataclass(frozen=True)
class Used:
    """A record with its weight, and its ns by row."""

    record: QueryRecord
    weight: float
    rows: Mapping[Row, int]


@dataclass(frozen=True)
class Bounds:
    """ns. slow: from which on a query is one of the slow ones; median: between which one is a median one

    block_ns, start_ns: of the blocks of time; blocks: how many there are
    """

    slow: int
    median: tuple[int, int]
    start_ns: int
    block_ns: int
    blocks: int

    def group_of(self, ns: int) -> str:
        """SLOW, MEDIAN, or "" for neither."""
        if ns >= self.slow:
            return SLOW
        return MEDIAN if self.median[0] <= ns <= self.median[1] else ""

    def block_of(self, end_ns: int) -> int:
        """Of a query that ended then: those that end after the window are of its last block."""
        return min(max(end_ns - self.start_ns, 0) // self.block_ns, self.blocks - 1)


class Compared(NamedTuple):
    """gap: slow less median; None for too few blocks"""

    slow: float
    median: float
    gap: Interval | None


@dataclass
class GroupSums:
    """What both groups add up to, by name and by block.

    A resample draws blocks with both groups in them, so what a block does to both cancels (Efron 1979). The groups are
    those of the data: how far their bounds could lie elsewhere is in the budget's intervals alone.
    """

    bounds: Bounds
    _blocks: list[dict[str, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._blocks = [defaultdict(float) for _ in range(self.bounds.blocks)]

    def add(self, ns: int, end_ns: int, values: Mapping[str, float]) -> None:
        """Of a query of `ns` that ended at `end_ns`."""
        group = self.bounds.group_of(ns)
        if group:
            block = self._blocks[self.bounds.block_of(end_ns)]
            for name, value in values.items():
                block[f"{group} {name}"] += value

    def total(self, group: str, name: str) -> float:
        return sum(block.get(f"{group} {name}", 0.0) for block in self._blocks)

    def compare(self, figures: Mapping[str, Callable[[Sums], float]], resamples: int = 600) -> dict[str, Compared]:
        """Each figure of both groups. A figure is computed from the sums of a group, by name."""
        names = sorted(set().union(*self._blocks))
        if not names:
            return {}
        drawn = Resamples([[{name: block.get(name, 0.0) for name in names} for block in self._blocks]],
                          resamples=resamples)  # fmt: skip

        def of(group: str, figure: Callable[[Sums], float]) -> Draws:
            return drawn.pooled(lambda totals: figure(lambda name: totals.get(f"{group} {name}", 0.0)))

        found = {}
        for key, figure in figures.items():
            slow, median = of(SLOW, figure), of(MEDIAN, figure)
            gap = Draws.combined(operator.sub, slow, median).interval(_FEWEST)
            found[key] = Compared(slow.estimate, median.estimate, gap)
        return found


class Scored(NamedTuple):
    """weight: how many of the population it represents; block: of time; values: whose means are compared"""

    score: float
    weight: float
    block: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Cuts:
    """upper: those at or above this quantile of the scores are the upper group; at: above this score instead, where it
    is not None; middle: the quantiles that the middle group lies between"""

    upper: float
    at: float | None = None
    middle: tuple[float, float] = (0.4, 0.6)


class _Place(NamedTuple):
    """The groups as slices of what is in the order of scores."""

    upper: slice
    middle: slice


class ScoredGroups:
    """`samples` in the order of their scores. blocks: how many there are, with those that have no sample.

    ValueError for no samples.
    """

    def __init__(self, samples: Sequence[Scored], blocks: int, cuts: Cuts) -> None:
        if not samples:
            raise ValueError("no samples")
        self.ordered = sorted(samples, key=lambda sample: sample.score)
        self.blocks = blocks
        self._cuts = cuts
        self._scores = [sample.score for sample in self.ordered]
        self._weights = [sample.weight for sample in self.ordered]
        self._block_of = [sample.block for sample in self.ordered]
        self._sums = _block_sums(self.ordered, blocks)
        self._place = self._placed(self._weights)
        self.upper = self.ordered[self._place.upper]
        self.middle = self.ordered[self._place.middle]

    def quantile(self, share: float) -> float:
        """The least score that at least this share of the weight does not exceed."""
        return self._scores[_reaching(list(accumulate(self._weights)), share)]

    def means(self) -> tuple[list[float], list[float]]:
        """Of each value, in the upper and in the middle group."""
        ones = [1] * self.blocks
        return self._mean(self._place.upper, ones), self._mean(self._place.middle, ones)

    def differences(self, resamples: int = _RESAMPLES, seed: int = 1) -> list[Interval] | None:
        """Of each value the upper group's mean less the middle one's, with its 95 % interval (percentile method); None
        for too few blocks."""
        if self.blocks < _FEWEST:
            return None
        draw = random.Random(seed)
        drawn: list[list[float]] = []
        for _ in range(resamples):
            taken = Counter(draw.choices(range(self.blocks), k=self.blocks))
            times = [taken[block] for block in range(self.blocks)]
            weights = list(map(mul, self._weights, map(times.__getitem__, self._block_of)))
            if not any(weights):
                continue
            place = self._placed(weights)
            upper, middle = self._mean(place.upper, times), self._mean(place.middle, times)
            drawn.append([first - second for first, second in zip(upper, middle, strict=True)])
        if not drawn:
            return None
        upper, middle = self.means()
        return [
            _interval(first - second, sorted(column), self.blocks)
            for first, second, column in zip(upper, middle, zip(*drawn, strict=True), strict=True)
        ]

    def _placed(self, weights: Sequence[float]) -> _Place:
        """The groups by these weights; all of one score are of one group."""
        reached, scores = list(accumulate(weights)), self._scores
        low, high = (scores[_reaching(reached, share)] for share in self._cuts.middle)
        at = self._cuts.at
        if at is None:
            at = scores[_reaching(reached, self._cuts.upper)]
        return _Place(slice(bisect_left(scores, at), len(scores)),
                      slice(bisect_left(scores, low), bisect_right(scores, high)))  # fmt: skip

    def _mean(self, group: slice, times: Sequence[int]) -> list[float]:
        """times: how often each block counts; zeros where the group has no weight then"""
        total = [0.0] * (len(self.ordered[0].values) + 1)
        for often, (places, sums) in zip(times, self._sums, strict=True):
            if not often:
                continue
            first, last = bisect_left(places, group.start), bisect_left(places, group.stop)
            if first < last:
                total = [
                    whole + often * (after - before)
                    for whole, after, before in zip(total, sums[last], sums[first], strict=True)
                ]
        weight = total[0]
        return [value / weight if weight else 0.0 for value in total[1:]]


def _block_sums(ordered: Sequence[Scored], blocks: int) -> list[tuple[list[int], list[list[float]]]]:
    """Of each block the places of its samples, and before each of them the sums of weight and of weighted values."""
    nothing = [0.0] * (len(ordered[0].values) + 1)
    sums: list[tuple[list[int], list[list[float]]]] = [([], [nothing]) for _ in range(blocks)]
    for place, sample in enumerate(ordered):
        places, before = sums[sample.block]
        weight = sample.weight
        places.append(place)
        before.append([whole + weight * value for whole, value in zip(before[-1], (1.0, *sample.values), strict=True)])
    return sums


def _reaching(reached: Sequence[float], share: float) -> int:
    """The first place at which running sums reach this share of the whole."""
    return min(bisect_left(reached, share * reached[-1] * (1 - _ROUNDING)), len(reached) - 1)


def _interval(estimate: float, ordered: Sequence[float], n: int) -> Interval:
    last = len(ordered) - 1
    return Interval(estimate, ordered[round(0.025 * last)], ordered[round(0.975 * last)], n)
