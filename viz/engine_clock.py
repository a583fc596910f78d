"""Where the engine's seconds lie on the clock of the host (CLOCK_MONOTONIC), on which the windows are.

A run records the moment at which the engine began its report. Older runs did not: there the two are laid over each
other by what the windows counted, at the shift at which the report gives every window its number of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ground.results.record import Window

__all__ = ("TimeBase", "align", "time_base")

_WORST = 0.01


@dataclass(frozen=True, slots=True)
class TimeBase:
    """start_ns: CLOCK_MONOTONIC of second 0 of the report; how: where that is known from."""

    start_ns: int
    how: str


def time_base(rates: Sequence[int], windows: Sequence[Window], recorded_ns: int | None) -> TimeBase | None:
    """The recorded moment, else the fitted one; None where no shift fits every window within 1 %."""
    if recorded_ns is not None:
        return TimeBase(recorded_ns, "")
    found = align(rates, windows)
    if found is None or found[1] > _WORST:
        return None
    return TimeBase(
        windows[0].start_ns - round(found[0] * 1e9),
        "Windows are laid over the engine's seconds by the queries each counted; "
        f"the worst of them is {found[1]:.2%} off.",
    )


def align(rates: Sequence[int], windows: Sequence[Window]) -> tuple[float, float] | None:
    """The second of the report at which the first window begins, and the worst relative miss of a window's count."""
    counted = [(w, w.counters.queries) for w in windows if w.counters.queries]
    if not counted or not rates:
        return None
    origin = windows[0].start_ns
    sums = [0, *accumulate(rates)]

    def at(second: float) -> float | None:
        if not 0 <= second <= len(rates):
            return None
        whole = min(int(second), len(rates) - 1)
        return sums[whole] + (second - whole) * rates[whole]

    def miss(shift: float) -> tuple[float, float] | None:
        squares = worst = 0.0
        for window, queries in counted:
            first = at(shift + (window.start_ns - origin) / 1e9)
            last = at(shift + (window.end_ns - origin) / 1e9)
            if first is None or last is None:
                return None
            off = (last - first) / queries - 1
            squares += off * off
            worst = max(worst, abs(off))
        return squares, worst

    best: tuple[float, float, float] | None = None
    for step in range(20 * len(rates)):
        found = miss(step / 20)
        if found is not None and (best is None or found[0] < best[1]):
            best = (step / 20, *found)
    return None if best is None else (best[0], best[2])
