"""Since when: the steps in a figure over the versions of an engine.

A version has one or several runs. Runs of one campaign that share a round (a session of a comparison) share what the
host did to it, so an effect of each round is fitted and taken out. What is left is a level for stretches of versions,
piecewise constant, weighted by the number of runs: exact dynamic programming with one penalty a step, as Potts models
have it. A single version that leaves the level and comes back is one feature, a dip, and costs as much as a step.

The penalty is the 96 % point of the largest gain that any single step or dip makes where runs are shuffled over the
versions, so where nothing changed at most 5 series in 100 show anything. Without repeats the scatter is that of
neighbours; then a step needs 3 versions on either side, and what is found is a candidate, no verdict. Of counts it is
known beforehand what repetitions differ by, so one of each version is enough.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from ground.results.history import Feature, Fit, Level
from ioflame.analysis.bootstrap import median
from ioflame.analysis.quantiles import t_quantile

_SHUFFLES = 99
# The 96th of 99: one more of the same kind is above it in 4 of 100 cases. The fifth is for what is left of runs once
# their means are taken out, which is a little more alike than runs are.
_PLACE = 95
_LEAST_UNREPEATED = 3
# Of a deviation that is known: the interval is that of a normal distribution.
_KNOWN_FREEDOM = 1000
# What the median of |difference of neighbours| is of a standard deviation, for a normal distribution.
_NEIGHBOURS = 0.6745 * math.sqrt(2)


@dataclass(frozen=True)
class Run:
    """A run of a version: ln of its figure. round: what it shares with runs of other versions; "" for nothing"""

    log: float
    round: str = ""


def fit_history(versions: Sequence[Sequence[Run]], *, deviation: float | None = None, seed: int = 1) -> Fit:
    """versions: the runs of each, the oldest first; none without a run. ValueError for one that has none.

    deviation: the standard deviation of a run's ln where it is known; None for that of the runs
    """
    if any(not runs for runs in versions):
        raise ValueError("a version without a run")
    means, left = _without_rounds(versions)
    counts = [len(runs) for runs in versions]
    rounds = {run.round for runs in versions for run in runs if run.round}
    freedom = sum(counts) - len(versions) - max(len(rounds) - 1, 0)
    repeated = deviation is not None or freedom >= max(2, len(versions) // 4)
    if deviation is not None:
        variance, freedom, left = deviation**2, _KNOWN_FREEDOM, []
    else:
        if repeated:
            variance = sum(one * one for one in left) / freedom
        else:
            variance, freedom = _of_neighbours(means), max(len(means) - 1, 1)
        variance = max(variance, _resolution([run.log for runs in versions for run in runs]) ** 2 / 4, 1e-12)
    least = 1 if repeated else _LEAST_UNREPEATED
    penalty = _penalty(tuple(counts), tuple(left) if repeated else (), least, seed) * variance
    seen = _Features(counts, least).largest_gain(means) > penalty
    segments = _Fitted(means, counts, penalty, least).segments() if seen else [(0, len(means), ())]
    return _told(means, counts, segments, variance, freedom, repeated)


def _without_rounds(versions: Sequence[Sequence[Run]]) -> tuple[list[float], list[float]]:
    """The mean of each version with the rounds' effects taken out, and what is left of every run."""
    shared: dict[str, int] = {}
    for runs in versions:
        for name in {run.round for run in runs if run.round}:
            shared[name] = shared.get(name, 0) + 1
    effects = {name: 0.0 for name, count in shared.items() if count > 1}
    means = [0.0] * len(versions)
    for _ in range(30 if effects else 1):
        means = [sum(run.log - effects.get(run.round, 0.0) for run in runs) / len(runs) for runs in versions]
        of: dict[str, list[float]] = {name: [] for name in effects}
        for mean, runs in zip(means, versions, strict=True):
            for run in runs:
                if run.round in effects:
                    of[run.round].append(run.log - mean)
        effects = {name: sum(values) / len(values) for name, values in of.items()}
        middle = sum(effects.values()) / len(effects) if effects else 0.0
        effects = {name: value - middle for name, value in effects.items()}
    means = [sum(run.log - effects.get(run.round, 0.0) for run in runs) / len(runs) for runs in versions]
    left = [
        run.log - effects.get(run.round, 0.0) - mean for mean, runs in zip(means, versions, strict=True) for run in runs
    ]
    return means, left


def _resolution(logs: Sequence[float]) -> float:
    """The least that figures differ by at all: rounded ones have less scatter than they were measured with."""
    return min((b - a for a, b in pairwise(sorted(set(logs))) if b - a > 1e-9), default=0.0)


def _of_neighbours(means: Sequence[float]) -> float:
    """The variance of a series by the differences of neighbours, which a step or a dip hardly changes."""
    steps = [abs(b - a) for a, b in pairwise(means)]
    return (median(steps) / _NEIGHBOURS) ** 2 if steps else 0.0


@lru_cache(maxsize=256)
def _penalty(counts: tuple[int, ...], left: tuple[float, ...], least: int, seed: int) -> float:
    """In variances of a run: what any single step or dip gains at most in 95 of 100 shuffles.

    left: of the runs; nothing where the variance is known, or that of neighbours, as the least stretch tells
    """
    dice = random.Random(seed)
    pool, ends = list(left), list(accumulate(counts, initial=0))
    squares = sum(x * x for x in pool)
    freedom = max(len(pool) - len(counts), 1)
    features = _Features(counts, least)
    gains = []
    for _ in range(_SHUFFLES):
        if pool:
            # A shuffle, three times as fast as random.shuffle.
            pool.sort(key=lambda _: dice.random())
            sums = [sum(pool[a:b]) for a, b in pairwise(ends)]
            means = [total / n for total, n in zip(sums, counts, strict=True)]
            variance = (squares - sum(total * mean for total, mean in zip(sums, means, strict=True))) / freedom
        else:
            means = [dice.gauss(0, 1 / math.sqrt(n)) for n in counts]
            variance = 1.0 if least == 1 else _of_neighbours(means)
        gains.append(features.largest_gain(means) / max(variance, 1e-300))
    return sorted(gains)[_PLACE]


class _Features:
    """What single steps and dips of a series can gain. least: versions on either side of a step"""

    def __init__(self, counts: Sequence[int], least: int) -> None:
        self.counts, size = counts, len(counts)
        self.whole = sum(counts)
        before = list(accumulate(counts))
        # (sum of a part, all being centred)^2 times this is what a level of its own explains of it and of the rest.
        self.steps = [
            self.whole / (n * (self.whole - n)) if least <= at <= size - least else 0.0
            for at, n in enumerate(before, 1)
        ]
        self.dips = [n * self.whole / (self.whole - n) if 0 < at < size - 1 else 0.0 for at, n in enumerate(counts)]

    def largest_gain(self, means: Sequence[float]) -> float:
        middle = sum(n * mean for n, mean in zip(self.counts, means, strict=True)) / self.whole
        off = [mean - middle for mean in means]
        sums = accumulate(n * one for n, one in zip(self.counts, off, strict=True))
        steps = max(one * one * factor for one, factor in zip(sums, self.steps, strict=True))
        dips = max(one * one * factor for one, factor in zip(off, self.dips, strict=True))
        return max(steps, dips)


_Segment = tuple[int, int, tuple[int, ...]]


class _Fitted:
    """Levels of stretches, by their sums of squares. penalty: of a step or dip; least: versions in a stretch"""

    def __init__(self, means: Sequence[float], counts: Sequence[int], penalty: float, least: int) -> None:
        self.means, self.counts, self.penalty, self.least = means, counts, penalty, least
        self.weight = list(accumulate(counts, initial=0))
        self.sum = list(accumulate((n * m for n, m in zip(counts, means, strict=True)), initial=0.0))

    def _dip_gain(self, at: int, weight: float, total: float) -> float:
        own = self.counts[at]
        return own * (self.means[at] - total / weight) ** 2 * weight / (weight - own) if weight > own else 0.0

    def _segment(self, begin: int, end: int) -> tuple[float, tuple[int, ...]]:
        """What the stretch explains less what its dips cost, and the dips."""
        weight, total = float(self.weight[end] - self.weight[begin]), self.sum[end] - self.sum[begin]
        dips: tuple[int, ...] = ()
        gained = 0.0
        while True:
            inner = range(begin + 1, end - 1) if end - begin - len(dips) > 2 else ()
            left = [at for at in inner if not {at - 1, at, at + 1} & set(dips)]
            best = max(left, key=lambda at: self._dip_gain(at, weight, total), default=None)
            if best is None or self._dip_gain(best, weight, total) <= self.penalty:
                return gained + total * total / weight, dips
            own = self.counts[best]
            gained += own * self.means[best] ** 2 - self.penalty
            weight, total, dips = weight - own, total - own * self.means[best], (*dips, best)

    def segments(self) -> list[_Segment]:
        """The stretches that explain most for their penalties, exactly but for dips, which are taken one by one."""
        size = len(self.means)
        best: list[tuple[float, list[_Segment]] | None] = [(0.0, [])] + [None] * size
        for end in range(self.least, size + 1):
            choices = []
            for begin in range(end - self.least + 1):
                before = best[begin]
                if before is not None and (begin == 0 or begin >= self.least):
                    value, dips = self._segment(begin, end)
                    choices.append((before[0] + value - self.penalty * (begin > 0), begin, dips))
            if choices:
                value, begin, dips = max(choices)
                before = best[begin]
                assert before is not None
                best[end] = (value, [*before[1], (begin, end, dips)])
        found = best[size]
        return found[1] if found else [(0, size, ())]


def _told(
    means: Sequence[float],
    counts: Sequence[int],
    segments: Sequence[_Segment],
    variance: float,
    freedom: int,
    repeated: bool,
) -> Fit:
    levels: list[Level] = []
    stretches: list[tuple[int, float, int]] = []
    for begin, end, dips in segments:
        kept = [at for at in range(begin, end) if at not in dips]
        weight = sum(counts[at] for at in kept)
        level = sum(counts[at] * means[at] for at in kept) / weight
        stretches.append((begin, level, weight))
        for at in range(begin, end):
            own = (means[at], counts[at]) if at in dips else (level, weight)
            error = math.sqrt(variance / counts[at])
            levels.append(Level(means[at], error, counts[at], own[0], math.sqrt(variance / own[1])))
    half = t_quantile(0.95, max(freedom, 1))

    def feature(at: int, dip: bool, old: tuple[float, int], new: tuple[float, int], away: int | None) -> Feature:
        log, wide = new[0] - old[0], half * math.sqrt(variance * (1 / old[1] + 1 / new[1]))
        return Feature(at, dip, math.exp(log), math.exp(log - wide), math.exp(log + wide), away, not repeated)

    def back(level: float, weight: int, after: int) -> int | None:
        """Where a later stretch is on a level again, as far as can be seen."""
        return next(
            (begin for begin, other, n in stretches[after:]
             if abs(other - level) <= half * math.sqrt(variance * (1 / weight + 1 / n))), None,
        )  # fmt: skip

    found = []
    for place, ((_, old, old_n), (begin, new, new_n)) in enumerate(pairwise(stretches)):
        found.append(feature(begin, False, (old, old_n), (new, new_n), back(old, old_n, place + 2)))
    for (_, level, weight), (_, _, dips) in zip(stretches, segments, strict=True):
        found += [feature(at, True, (level, weight), (means[at], counts[at]), at + 1) for at in dips]
    return Fit(levels, sorted(found, key=lambda one: one.at), math.sqrt(variance), freedom, repeated, half)
