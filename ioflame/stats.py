"""Statistics shared by all rooms: the derived columns of the source documents, and intervals by bootstrap."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

__all__ = (
    "Derived",
    "Draws",
    "Interval",
    "Resamples",
    "derive",
    "median",
    "predicted_iops",
    "share_draws",
    "share_intervals",
    "truncate",
)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; n is the number of slices it rests on."""

    estimate: float
    low: float
    high: float
    n: int

    def overlaps(self, other: Interval) -> bool:
        """True where no difference between the two is seen."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Derived:
    """What the database costs beyond fio's read of the same device.

    io_eff:  IOPS of the database over IOPS of fio with as many users
    us_inc:  user CPU per read beyond fio's, us; cpu_inc: user and system CPU
    """

    io_eff: float
    us_inc: float
    cpu_inc: float


def truncate(value: float | str | Decimal, digits: int = 3) -> str:
    """`value` cut, not rounded, to `digits` decimals, as bc with scale=3 prints it: .8448 is 0.844."""
    step = Decimal(1).scaleb(-digits)
    return str(Decimal(str(value)).quantize(step, rounding=ROUND_DOWN))


def derive(iops: float, us_per: float, cpu_per: float, fio_iops: float, fio_us: float, fio_cpu: float) -> Derived:
    """The columns io.eff, us.inc and cpu.inc of a row, from its own figures and fio's with as many users."""
    # By decimals: the post's figures have three, and a binary difference would fall below the last one when cut.
    us, fus, cpu, fcpu = (Decimal(str(v)) for v in (us_per, fio_us, cpu_per, fio_cpu))
    return Derived(iops / fio_iops, float(us - fus), float(cpu - fcpu))


def predicted_iops(users: int, *latencies_us: float) -> float:
    """IOPS of `users` that each wait for one read after the other, each read taking the sum of these parts."""
    return users * 1e6 / sum(latencies_us)


def median(values: Sequence[float]) -> float:
    """The middle value; the mean of the middle two of an even number. ValueError for none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class Draws:
    """A figure with its bootstrap: what it is, and what it would have been in each resample.

    n: the slices it rests on. Figures of one `Resamples` belong together draw by draw, so what is computed from them
    keeps what they have in common.
    """

    def __init__(self, estimate: float, values: Sequence[float], n: int) -> None:
        self.estimate = estimate
        self.values = values
        self.n = n

    def interval(self) -> Interval | None:
        """The 95 % interval, percentile method; None for fewer than 5 slices, of which none can be had."""
        if self.n < _FEWEST_SLICES:
            return None
        ordered = sorted(self.values)
        last = len(ordered) - 1
        return Interval(self.estimate, ordered[round(0.025 * last)], ordered[round(0.975 * last)], self.n)

    @staticmethod
    def combined(of: Callable[..., float], *parts: Draws) -> Draws:
        """of(...) of several figures, draw by draw. n is that of the first."""
        values = [of(*row) for row in zip(*(part.values for part in parts), strict=True)]
        return Draws(of(*(part.estimate for part in parts)), values, parts[0].n)


class Resamples:
    """Time slices of one or several repeats, and resamples of them (bootstrap of Efron 1979, in two stages).

    A resample draws repeats with replacement and, within each, slices with replacement: it varies as repeats vary and
    as the slices of one vary. Samples within a slice are not taken as independent. Slices are joined to at most 60
    consecutive ones a repeat, which keeps what neighbours have in common. The same slices and seed give the same
    resamples. With two or three repeats an interval is about as wide as their spread, which is all they tell.
    """

    def __init__(
        self, repeats: Sequence[Sequence[Mapping[str, float]]], *, resamples: int = 1000, seed: int = 1
    ) -> None:
        """repeats: for each, its slices: what each column gained in the slice. ValueError where there is none."""
        groups = [_blocks(slices) for slices in repeats if slices]
        if not groups:
            raise ValueError("no slices")
        self.n = sum(len(slices) for slices in repeats)
        self._measured = [_total(group) for group in groups]
        draw = random.Random(seed)
        self._drawn: list[list[Mapping[str, float]]] = []
        for _ in range(resamples):
            chosen = draw.choices(groups, k=len(groups)) if len(groups) > 1 else groups
            self._drawn.append([_total(draw.choices(group, k=len(group))) for group in chosen])

    def median(self, of: Callable[[Mapping[str, float]], float]) -> Draws:
        """The median over the repeats of a figure of each repeat's totals."""
        values = [median([of(totals) for totals in drawn]) for drawn in self._drawn]
        return Draws(median([of(totals) for totals in self._measured]), values, self.n)

    def pooled(self, of: Callable[[Mapping[str, float]], float]) -> Draws:
        """A figure of all repeats' totals together."""
        return Draws(of(_total(self._measured)), [of(_total(drawn)) for drawn in self._drawn], self.n)


def share_draws(repeats: Sequence[Sequence[Sequence[float]]]) -> list[Draws]:
    """The share of each row in all weight, in percent, all repeats pooled.

    repeats: for each, its seconds; a second is the weight of every row. Empty seconds count for nothing.
    """
    slices = [[{str(i): w for i, w in enumerate(second)} for second in seconds] for seconds in repeats]
    resamples = Resamples(slices)

    def share(row: str) -> Callable[[Mapping[str, float]], float]:
        return lambda totals: 100 * totals[row] / (sum(totals.values()) or 1)

    return [resamples.pooled(share(row)) for row in next(s for s in slices if s)[0]]


def share_intervals(repeats: Sequence[Sequence[Sequence[float]]]) -> list[Interval | None]:
    """The 95 % interval of each row's share, in percent."""
    return [draws.interval() for draws in share_draws(repeats)] if any(repeats) else []


_FEWEST_SLICES = 5
_MOST_BLOCKS = 60


def _blocks(slices: Sequence[Mapping[str, float]]) -> list[Mapping[str, float]]:
    length = -(-len(slices) // _MOST_BLOCKS)
    return [_total(slices[i : i + length]) for i in range(0, len(slices), length)] if length > 1 else list(slices)


def _total(slices: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    return {name: sum([one[name] for one in slices]) for name in slices[0]}
