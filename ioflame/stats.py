"""Statistics shared by all rooms: the derived columns of the source documents, and intervals by bootstrap."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

__all__ = ("Derived", "Interval", "bootstrap_ratio", "derive", "median", "predicted_iops", "truncate")


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


def bootstrap_ratio(
    parts: Sequence[float], wholes: Sequence[float], *, resamples: int = 2000, seed: int = 1
) -> Interval | None:
    """sum(parts)/sum(wholes) over time slices, with the percentile bootstrap's 95 % interval (Efron 1979).

    Slices are drawn with replacement. None for fewer than 5 slices, of which no interval can be had. The same slices
    and seed give the same interval.
    """
    n = len(parts)
    if n < 5 or n != len(wholes) or not sum(wholes):
        return None
    draw = random.Random(seed)
    ratios = []
    for _ in range(resamples):
        picked = draw.choices(range(n), k=n)
        whole = sum(wholes[i] for i in picked)
        if whole:
            ratios.append(sum(parts[i] for i in picked) / whole)
    ratios.sort()
    low, high = ratios[int(0.025 * len(ratios))], ratios[min(int(0.975 * len(ratios)), len(ratios) - 1)]
    return Interval(sum(parts) / sum(wholes), low, high, n)
