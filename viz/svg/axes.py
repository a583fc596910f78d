"""Axes of plots of durations: ticks that people read, and durations in a unit that suits them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viz.figures import CannotBeError


@dataclass(frozen=True, slots=True)
class Axis:
    """low, high: ns at its ends; at: px of ns; ticks: ns"""

    low: float
    high: float
    at: Callable[[float], float]
    ticks: list[float]


def log_axis(low: float, high: float, begin: float, end: float) -> Axis:
    """From `low` (above 0) to `high` in ns over the pixels from `begin` to `end`; ticks at 1, 2 and 5 times 10^n."""
    low, high = max(low, 1.0), max(high, low * 1.01, 1.01)
    scale = (end - begin) / math.log(high / low)
    steps = (1, 2, 5) if high / low < 3000 else (1,)
    found = [10.0**power * step for power in range(13) for step in steps]
    return Axis(
        low, high, lambda ns: begin + scale * math.log(max(ns, low) / low), [t for t in found if low <= t <= high]
    )


def linear_axis(low: float, high: float, begin: float, end: float, ticks: int = 8) -> Axis:
    """From `low` to `high` in ns over the pixels from `begin` to `end`, with about `ticks` ticks."""
    high = max(high, low + 1)
    step = nice_step((high - low) / ticks)
    first = math.ceil(low / step)
    found = [step * place for place in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, lambda ns: begin + (end - begin) * (ns - low) / (high - low), found)


def nice_step(least: float, steps: Sequence[float] = (1, 2, 5)) -> float:
    """The least of `steps` times a power of ten that is not below `least`. CannotBeError where that is not above 0."""
    if not 0 < least < math.inf:
        raise CannotBeError(f"an axis with steps of {least}")
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (*steps, 10) if power * step >= least * (1 - 1e-9))


def duration(ns: float) -> str:
    """`850 ns`, `12.3 us`, `1.25 ms`: three digits."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= factor * 0.9995:
            return f"{_three(ns / factor)} {unit}"
    return f"{ns:.0f} ns"


def us(ns: float | None) -> str:
    """us with two decimals, as all tables of latency have them; `-` for None."""
    return "-" if ns is None else f"{ns / 1e3:,.2f}"


def _three(value: float) -> str:
    text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
