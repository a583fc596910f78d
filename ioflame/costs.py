"""What each observer cost the workload: its window against the plain windows beside it, second by second."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ioflame.record import ObserverCost, Window
from ioflame.stats import Interval

__all__ = ("observer_costs",)

_RESAMPLES = 2000
# Of fewer seconds on either side no interval can be had.
_FEWEST = 3


def observer_costs(windows: Sequence[Window], series: Sequence[Window]) -> list[ObserverCost]:
    """QPS of each observed window over QPS of the plain windows before and after it, with a 95 % bootstrap interval.

    windows: whole windows in order; series: their slices of about a second. Both sides are resampled by seconds (Efron
    1979). The interval holds the seconds' scatter; how much two windows differ with nothing attached, the `null` row
    shows. A window with fewer than 3 counted seconds on either side is left out.
    """
    costs = []
    for place, window in enumerate(windows):
        if window.kind in ("plain", "warm-up"):
            continue
        plain = [w for w in (*windows[max(place - 1, 0) : place], *windows[place + 1 : place + 2]) if w.kind == "plain"]
        on = _rates(series, [window])
        off = _rates(series, plain)
        if min(len(on), len(off)) >= _FEWEST:
            costs.append(ObserverCost(window.kind, _ratio(on, off)))
    return costs


def _rates(series: Sequence[Window], windows: Sequence[Window]) -> list[tuple[float, float]]:
    """(queries, seconds) of the slices within the windows."""
    return [
        (s.counters.queries, s.seconds)
        for s in series
        if s.counters.queries is not None and any(w.start_ns <= s.start_ns < w.end_ns for w in windows)
    ]


def _ratio(on: Sequence[tuple[float, float]], off: Sequence[tuple[float, float]]) -> Interval:
    draw = random.Random(1)
    ratios = sorted(
        _rate(draw.choices(on, k=len(on))) / _rate(draw.choices(off, k=len(off))) for _ in range(_RESAMPLES)
    )
    low, high = ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES)]
    return Interval(_rate(on) / _rate(off), low, high, len(on))


def _rate(slices: Sequence[tuple[float, float]]) -> float:
    return sum(queries for queries, _ in slices) / sum(seconds for _, seconds in slices)
