"""What each observer cost the workload: its window against the plain windows beside it, second by second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.record import ObserverCost, Window
from ioflame.analysis.bootstrap import Draws, Resamples

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
            # Two sides, two seeds: their seconds have nothing in common.
            within, beside = (Resamples([side], seed=seed).pooled(_qps) for seed, side in enumerate((on, off), start=1))
            ratio = Draws.combined(lambda a, b: a / b, within, beside).interval(_FEWEST)
            if ratio is not None:
                costs.append(ObserverCost(window.kind, ratio))
    return costs


def _rates(series: Sequence[Window], windows: Sequence[Window]) -> list[dict[str, float]]:
    """What each slice within the windows gained."""
    return [
        {"queries": s.counters.queries, "seconds": s.seconds}
        for s in series
        if s.counters.queries is not None and any(w.start_ns <= s.start_ns < w.end_ns for w in windows)
    ]


def _qps(totals: Mapping[str, float]) -> float:
    return totals["queries"] / totals["seconds"]
