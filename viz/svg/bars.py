"""Bars of one figure, a row each: the value, its interval as a whisker, what was published as a mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.figures import number_text
from viz.svg.axes import nice_step
from viz.svg.elements import element, label, path, plot

_WIDTH, _ROW, _TOP, _FOOT, _RIGHT = 520, 22, 6, 22, 92
# Of small text, px a letter at most.
_LETTER, _LONGEST = 6.4, 24
# A bar so many times as long as the next is cut.
_MANY_TIMES = 10


@dataclass(frozen=True)
class Bar:
    """value, its interval and the published one in the figure's unit; None where there is none"""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    published: float | None = None


def bars_plot(bars: Sequence[Bar], words: str, digits: int) -> Markup:
    """From 0; what is not measured, or infinite, is a word in the place of its bar. A bar many times as long as every
    other is cut, and says so."""
    known = [v for bar in bars for v in (bar.value, bar.high, bar.published) if v is not None and math.isfinite(v)]
    most = _axis_end(sorted(v for v in known if v > 0))
    names = [bar.name if len(bar.name) <= _LONGEST else bar.name[: _LONGEST - 1] + "\u2026" for bar in bars]
    left = 12 + _LETTER * max(map(len, names))
    height = _TOP + _ROW * len(bars) + _FOOT

    def x(value: float) -> float:
        return left + (_WIDTH - _RIGHT - left) * min(max(value, 0.0), most) / most

    parts: list[Markup] = []
    step = nice_step(most / 4)
    for turn in range(int(most / step) + 1):
        at = x(turn * step)
        parts.append(element("line", class_="grid", x1=at, x2=at, y1=_TOP, y2=height - _FOOT))
        parts.append(label(f"{turn * step:,.10g}", at, height - 6, "tick mid"))
    for place, (bar, name) in enumerate(zip(bars, names, strict=True)):
        top = _TOP + _ROW * place
        middle = top + _ROW / 2
        told = [bar.name, number_text(bar.value, digits, "not measured")]
        parts.append(label(name, left - 6, middle + 4, "tick end"))
        if bar.value is not None and math.isfinite(bar.value):
            size = {"x": left, "y": top + 4, "width": max(x(bar.value) - left, 0.5), "height": _ROW - 8}
            drawn = element("rect", element("title", "\n".join(told)), class_="segment h0", **size)
            parts.append(drawn)
            if bar.value > most:
                end = x(bar.value)
                parts.append(path("cut", f"M{end - 16:.1f} {top + _ROW - 2}l6 {4 - _ROW}m4 0l-6 {_ROW - 4}"))
        if bar.low is not None and bar.high is not None and math.isfinite(bar.high):
            low, high = x(bar.low), x(bar.high)
            ends = f"M{low:.1f} {middle - 4}v8M{low:.1f} {middle}H{high:.1f}M{high:.1f} {middle - 4}v8"
            parts.append(path("whisker", ends))
        if bar.published is not None and math.isfinite(bar.published):
            at = x(bar.published)
            parts.append(path("over", f"M{at:.1f} {top + 2}v{_ROW - 4}"))
        cut = " (cut)" if bar.value is not None and most < bar.value < math.inf else ""
        parts.append(
            label(number_text(bar.value, digits, "not measured") + cut, _WIDTH - _RIGHT + 8, middle + 4, "tick")
        )
    return plot(_WIDTH, height, words, *parts)


def _axis_end(values: Sequence[float]) -> float:
    """Of positive values, the smallest first. Where one alone would leave the others no length, it does not count."""
    if len(values) > 2 and values[-1] > _MANY_TIMES * values[-2]:
        values = [*values[:-1], values[-2] * 1.5]
    return max(values, default=1.0) * 1.04
