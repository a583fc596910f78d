"""Which commit: the posterior over commits from blocks in which a candidate runs beside the good and the bad end.

Of a block there are v = ln(bad/good) and u = ln(candidate) - the mean of ln(good) and ln(bad). They are independent of
each other: v has the mean D, the whole difference, and u the mean D/2 where the candidate is as bad as the bad end,
-D/2 where it is as good as the good one. One commit is taken to make all of D. D itself is not known and is integrated
out, so the posterior includes the uncertainty of the ends. The next measurement is the one with the most information
a second: the mutual information of the outcome and the commit, over the time to build, start and measure. (Waeber,
Frazier and Henderson 2013, on searches with noise; MacKay 2003, on information.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

# Blocks a session may have: beyond these, measuring another commit gives more information than another block.
BLOCKS = (2, 4, 8)
_CERTAIN = 0.99
# Distance, in standard deviations, at which one outcome gives all the information.
_ALL_TOLD = 12.0


@dataclass(frozen=True)
class Observation:
    """A session: block by block ln(bad/good), and of a candidate u, which is empty where only the ends ran."""

    candidate: int | None
    ends: list[float]
    off: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Costs:
    """Seconds: to build a candidate (0 for one that is built), to start a session, and of a block."""

    build: Callable[[int], float]
    session: float
    block: float


@dataclass(frozen=True)
class NextStep:
    """What is measured next: a candidate, and how many blocks."""

    candidate: int
    blocks: int


@dataclass(frozen=True)
class Found:
    """Commits that hold the culprit, first to last: one, or several that cannot be separated because commits between
    them could not be built. change: ln(bad/good); error: of it"""

    first: int
    last: int
    probability: float
    change: float
    error: float


class Search:
    """Over commits 1 to `last`; commit 0 is the good end, `last` the bad one.

    session_sd: by which ln of one process differs from the next beyond its blocks; skipped: candidates that cannot run
    """

    def __init__(self, last: int, *, session_sd: float = 0.0) -> None:
        self.last = last
        self.session_variance = session_sd**2
        self.skipped: set[int] = set()
        # Pairs of commits whose artifacts are the same bits: no commit between them changed anything.
        self.same: list[tuple[int, int]] = []
        self.observations: list[Observation] = []

    def block_variance(self) -> float:
        """Of ln of one arm in one block, from what blocks of one session differ by."""
        squares, freedom = 0.0, 0
        for one in self.observations:
            # v is a difference of two arms, u of one and the mean of two.
            for values, parts in ((one.ends, 2.0), (one.off, 1.5)):
                if len(values) > 1:
                    mean = sum(values) / len(values)
                    squares += sum((value - mean) ** 2 for value in values) / parts
                    freedom += len(values) - 1
        return max(squares / freedom if freedom else 0.01, 1e-10)

    def _sums(self) -> tuple[float, float, list[float]]:
        """Precision of D, what the ends say of it, and by candidate what it says of it if it is bad."""
        block = self.block_variance()
        precision = ends = 0.0
        by_candidate = [0.0] * (self.last + 1)
        for one in self.observations:
            variance = block / len(one.ends) + self.session_variance
            precision += 1 / (2 * variance)
            ends += sum(one.ends) / len(one.ends) / (2 * variance)
            if one.candidate is not None and one.off:
                variance = 1.5 * (block / len(one.off) + self.session_variance)
                precision += 0.25 / variance
                by_candidate[one.candidate] += sum(one.off) / len(one.off) / (2 * variance)
        return precision, ends, by_candidate

    def posterior(self) -> list[float]:
        """Of each commit from 0 (which it is not) to the last: that it is the one."""
        precision, ends, by_candidate = self._sums()
        whole = sum(by_candidate)
        # With commit k, candidates before it are good: their part has the other sign.
        before = [0.0, *accumulate(by_candidate)]
        logs = [(ends + whole - 2 * before[k]) ** 2 / (2 * precision) for k in range(self.last + 1)]
        # The change has the sign that the ends have: of the other there is no evidence worth keeping.
        logs = [log if (ends + whole - 2 * before[k]) * ends > 0 else -math.inf for k, log in enumerate(logs)]
        for first, second in self.same:
            logs[first + 1 : second + 1] = [-math.inf] * (second - first)
        top = max(logs[1:])
        parts = [0.0, *(math.exp(log - top) for log in logs[1:])]
        total = sum(parts)
        return [one / total for one in parts]

    def found(self) -> Found | None:
        """None while no commit, or stretch of commits that cannot be separated, has 99 %."""
        posterior = self.posterior()
        best = max(self._groups(), key=lambda group: sum(posterior[group[0] : group[1] + 1]))
        probability = sum(posterior[best[0] : best[1] + 1])
        if probability < _CERTAIN:
            return None
        precision, ends, by_candidate = self._sums()
        sign = [-1 if at < best[0] else 1 for at in range(self.last + 1)]
        change = (ends + sum(a * b for a, b in zip(sign, by_candidate, strict=True))) / precision
        return Found(*best, probability, change, math.sqrt(1 / precision))

    def _groups(self) -> list[tuple[int, int]]:
        """Stretches of commits that only a skipped commit could separate."""
        groups = []
        first = 1
        for at in range(1, self.last + 1):
            if at == self.last or at not in self.skipped:
                groups.append((first, at))
                first = at + 1
        return groups

    def next(self, costs: Costs) -> NextStep | None:
        """The step that gives the most information a second; None where no remaining candidate gives any."""
        precision, ends, _ = self._sums()
        block = self.block_variance()
        change = abs(ends / precision) if precision else 0.0
        bad = list(accumulate(self.posterior()))
        best: tuple[float, NextStep] | None = None
        for blocks in BLOCKS:
            apart = change / math.sqrt(1.5 * (block / blocks + self.session_variance))
            for candidate in range(1, self.last):
                share = bad[candidate]
                if candidate in self.skipped or not 0.005 < share < 0.995:
                    continue
                seconds = costs.session + blocks * costs.block + costs.build(candidate)
                gain = _information(round(share, 2), round(min(apart, _ALL_TOLD), 1)) / seconds
                if best is None or gain > best[0]:
                    best = (gain, NextStep(candidate, blocks))
        return best[1] if best else None


@lru_cache(maxsize=20_000)
def _information(share: float, apart: float) -> float:
    """Nats that an outcome of N(+-apart/2, 1) gives on which of the two it is, the first with chance `share`."""
    if not 0 < share < 1:
        return 0.0
    steps, reach = 40, apart / 2 + 4
    width = 2 * reach / steps
    told = 0.0
    for step in range(steps + 1):
        x = -reach + step * width
        first, second = share * _density(x - apart / 2), (1 - share) * _density(x + apart / 2)
        both = first + second
        told += first * math.log(first / both / share) + second * math.log(second / both / (1 - share))
    return told * width


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
