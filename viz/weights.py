"""Numbers as text: shares that add up, and weights in a unit a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

_TIME = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))
_COUNT = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def percentages(weights: Sequence[int | float | Fraction], decimals: int = 2) -> list[str]:
    """`weights` as percentages of their sum whose printed digits add up to exactly 100.

    Each is rounded down, and the units that are missing go to those that lost most (largest remainder; ties
    go to the first). So a printed value is less than one unit of its last digit away from the true one.
    """
    exact = [Fraction(weight) for weight in weights]
    total = sum(exact)
    if total <= 0:
        return [f"{0:.{decimals}f}" for _ in exact]
    units = [weight * 100 * 10**decimals / total for weight in exact]
    printed = [unit.numerator // unit.denominator for unit in units]
    missing = 100 * 10**decimals - sum(printed)
    by_loss = sorted(range(len(units)), key=lambda i: (printed[i] - units[i], i))
    for index in by_loss[:missing]:
        printed[index] += 1
    return [_fixed(value, decimals) for value in printed]


def _fixed(value: int, decimals: int) -> str:
    whole, part = divmod(value, 10**decimals)
    return f"{whole}.{part:0{decimals}d}" if decimals else str(whole)


def scaled_weight(weight: int, unit: str) -> str:
    """`weight` in four significant digits or so: `1.234 s` for ns, `4.640 G cycles` for a count."""
    if unit == "ns":
        for factor, name in _TIME:
            if weight >= factor:
                return f"{weight / factor:.3f} {name}"
        return f"{weight} ns"
    for factor, prefix in _COUNT:
        if weight >= factor:
            return f"{weight / factor:.3f} {prefix} {unit}"
    return f"{weight} {unit}"


def exact_weight(weight: int, unit: str) -> str:
    """`weight` to the last digit, grouped: `1,234,567,890 ns`."""
    return f"{weight:,} {unit}"
