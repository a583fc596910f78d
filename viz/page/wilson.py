"""How sure a share is: the 95 % interval of Wilson for a proportion out of n samples.

The samples of a profile are taken as independent draws of equal weight. Slices of a run, where it has them, would say
more; the legend beside each table says which was used.
"""

from __future__ import annotations

import math

_Z = 1.959963984540054  # of 95 %, two-sided


def wilson(share: float, n: int) -> tuple[float, float]:
    """The interval around `share` (0 to 1) seen in `n` samples; (0, 1) where there are none."""
    if n <= 0:
        return 0.0, 1.0
    share = min(max(share, 0.0), 1.0)
    square = _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))
