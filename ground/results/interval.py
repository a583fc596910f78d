"""An interval as result files hold it, and that of a share."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ("Interval", "wilson")

_Z = 1.959963984540054  # of 95 %, two-sided


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; n is the number of slices it rests on."""

    estimate: float
    low: float
    high: float
    n: int

    @property
    def leaves_zero(self) -> bool:
        """Of the interval of a difference: True where one is seen. That two intervals overlap says nothing of it."""
        return self.low > 0 or self.high < 0


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval around a `share` (0 to 1) seen in `n` independent draws of equal weight.

    (0, 1) where there are none.
    """
    if n <= 0:
        return 0.0, 1.0
    share = min(max(share, 0.0), 1.0)
    square = _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))
