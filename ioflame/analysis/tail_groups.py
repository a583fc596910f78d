"""Slow queries beside median ones by sums over blocks of time: figures of fixed groups, with their intervals."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ground.results.interval import Interval
from ioflame.analysis.bootstrap import Draws, Resamples

SLOW, MEDIAN = "slow", "median"
# Of fewer blocks no interval can be had.
_FEWEST = 8

Sums = Callable[[str], float]


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
