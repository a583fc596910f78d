"""Bars that show where the interval of a change lies: all of a table on one scale, with zero in its middle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from viz.svg.elements import element, path

# Columns of the screen on either side of zero.
_HALF = 9
_WIDTH, _HEIGHT, _EDGE = 1000, 16, 20
# The scale ends here, in thresholds, however wide an interval is: at least two columns are left below the threshold.
_LEAST, _MOST = 1.5, _HALF / 2
# Where there is no threshold: in the largest change.
_OF_LARGEST = 3.0


class Change(NamedTuple):
    """A change and its interval, in the unit of the table."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True)
class Scale:
    """most: the change at either edge; delta: the smallest that matters, None where a table has none"""

    most: float
    delta: float | None = None

    def head(self, unit: str = "") -> str:
        """The scale as the head of its column: both edges, and zero in the middle."""
        low, high = self._edges(unit)
        return f"{low:<{_HALF}}0{high:>{_HALF}}"

    def head_markup(self, unit: str = "") -> Markup:
        """The same for a page."""
        low, high = self._edges(unit)
        return element("span", *(element("span", f"{end} ") for end in (low, "0", high)), class_="interval-scale")

    def _edges(self, unit: str) -> tuple[str, str]:
        low, high = (f"{end:+,.{_digits(self.most)}f}{unit}" for end in (-self.most, self.most))
        return low, high

    def text(self, change: Change | None) -> str:
        """Columns of the screen: `\u2502` zero, `\u250a` the threshold, `\u25cf` the change; `<` and `>` where it goes
        on beyond the scale."""
        if change is None:
            return ""
        line = {0: "\u2502"}
        if self.delta is not None:
            line |= dict.fromkeys((-self._threshold, self._threshold), "\u250a")
        low, estimate, high = map(self._column, change)
        line |= dict.fromkeys(range(low, high + 1), "━")
        if low < 0 < high:
            line[0] = "\u253f"
        line[estimate] = "\u25cf"
        line |= self._beyond(change)
        return "".join(line.get(place, " ") for place in range(-_HALF, _HALF + 1))

    def svg(self, change: Change | None, kind: str = "") -> Markup:
        """The same for a page. kind: class of the colour of the change, which its mark says too"""
        if change is None:
            return Markup()
        low, estimate, high = map(self._x, change)
        drawn = [path("zero", f"M{_WIDTH / 2} 0v{_HEIGHT}")]
        if self.delta is not None:
            thresholds = (self._x(end) for end in (-self.delta, self.delta))
            drawn.append(path("delta", "".join(f"M{x:.1f} 0v{_HEIGHT}" for x in thresholds)))
        arrows = self._beyond(change).values()
        left = f"M{_EDGE} 3L4 8L{_EDGE} 13" if "<" in arrows else f"M{low:.1f} 4v8"
        right = f"M{_WIDTH - _EDGE} 3L{_WIDTH - 4} 8L{_WIDTH - _EDGE} 13" if ">" in arrows else f"M{high:.1f} 4v8"
        drawn.append(path("whisker", f"M{low:.1f} 8H{high:.1f}{left}{right}"))
        if abs(change.estimate) <= self.most:
            drawn.append(element("rect", class_=f"change {kind}".rstrip(), x=estimate - 12, y=4, width=24.0, height=8))
        return element(
            "svg", *drawn, class_="interval-bar", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none",
            aria_hidden="true",
        )  # fmt: skip

    @property
    def _threshold(self) -> int:
        return max(2, round((self.delta or 0.0) / self.most * _HALF))

    def _column(self, value: float) -> int:
        """On the side of zero, and of the threshold, that the value is: rounding does not move it there."""
        size = round(abs(value) / self.most * _HALF)
        if value:
            size = max(size, 1)
        if value and self.delta is not None and abs(value) < self.delta:
            size = min(size, self._threshold - 1)
        elif self.delta is not None and abs(value) > self.delta:
            size = max(size, self._threshold + 1)
        return min(size, _HALF) if value > 0 else -min(size, _HALF)

    def _x(self, value: float) -> float:
        part = min(max(value / self.most, -1.0), 1.0)
        return _WIDTH / 2 + part * (_WIDTH / 2 - _EDGE)

    def _beyond(self, change: Change) -> dict[int, str]:
        """The columns of the edges beyond which an interval goes on."""
        edges = {-_HALF: ("<", change.low < -self.most), _HALF: (">", change.high > self.most)}
        return {place: sign for place, (sign, goes_on) in edges.items() if goes_on}


def scale_of(changes: Iterable[Change | None], delta: float | None = None) -> Scale | None:
    """The scale that all these are drawn on; None where there is no interval, or all are zero.

    An interval so wide that the threshold, or the largest change, could not be seen beside it goes on beyond the scale.
    """
    found = [change for change in changes if change is not None]
    widest = max((abs(end) for one in found for end in one), default=0.0)
    if not widest:
        return None
    if delta:
        most = min(max(widest, _LEAST * delta), _MOST * delta)
    else:
        most = min(widest, _OF_LARGEST * max(abs(one.estimate) for one in found) or widest)
    step = 10.0 ** _digits(most)
    return Scale(math.ceil(most * step) / step, delta)


def _digits(most: float) -> int:
    """Decimals of an edge of the scale, which its head has room for."""
    return 0 if most >= 10 else 1 if most >= 1 else 2
