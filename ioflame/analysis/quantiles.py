"""Student's t and chi-squared, without a library: tested against published tables."""

from __future__ import annotations

import math
from functools import lru_cache


def t_tail(t: float, freedom: float) -> float:
    """Two-sided p of Student's t: P(|T| > |t|), by the incomplete beta function (Abramowitz and Stegun 26.7.1)."""
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, freedom: float) -> float:
    """t with P(|T| <= t) = confidence: 2.776 for 0.95 and 4 degrees of freedom."""
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def chi_squared_tail(x: float, freedom: int) -> float:
    """P(X > x), by the recurrence over two degrees of freedom (Abramowitz and Stegun 26.4.8)."""
    if freedom < 1:
        return 1.0
    tail = math.erfc(math.sqrt(x / 2)) if freedom % 2 else math.exp(-x / 2)
    for k in range(2 - freedom % 2, freedom, 2):
        tail += (x / 2) ** (k / 2) * math.exp(-x / 2) / math.gamma(k / 2 + 1)
    return min(tail, 1.0)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised I_x(a, b): its continued fraction by Lentz's method (Numerical Recipes 6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    fraction = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / ((1 + step * d) or tiny)
            c = (1 + step / c) or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a
