"""A figure over versions: each with its interval and the level it lies on; and CPU by category, stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.flame.palette import hue_class, hue_places
from viz.svg.axes import nice_step
from viz.svg.elements import element, label, path, plot

_WIDTH, _HEIGHT = 1000, 230
_LEFT, _RIGHT, _TOP, _FOOT = 66, 14, 12, 62


@dataclass(frozen=True)
class VersionDot:
    """A version: its figure with its interval, the level that it lies on, and what is said of it."""

    version: str
    value: float
    low: float
    high: float
    level: float
    told: str


def history_plot(dots: Sequence[VersionDot], words: str, band: float) -> Markup:
    """band: the smallest difference that matters, as a part of the first level; drawn around it."""
    first = dots[0].level
    ends = [end for dot in dots for end in (dot.low, dot.high, dot.value)]
    low, high = min(*ends, first * (1 - band)), max(*ends, first * (1 + band))
    at, parts = _scale(low - 0.04 * (high - low), high + 0.04 * (high - low))
    parts.insert(0, element("rect", class_="window", x=_LEFT, y=at(first * (1 + band)), width=_WIDTH - _RIGHT - _LEFT,
                            height=at(first * (1 - band)) - at(first * (1 + band))))  # fmt: skip
    step = _step(len(dots))
    line = []
    for place, dot in enumerate(dots):
        x = _LEFT + step * (place + 0.5)
        line.append(f"M{x - step / 2:.1f} {at(dot.level):.1f}H{x + step / 2:.1f}")
        parts.append(path("whisker", f"M{x:.1f} {at(dot.low):.1f}V{at(dot.high):.1f}"))
        told = element("title", dot.told)
        parts.append(element("circle", told, class_="segment h0", cx=x, cy=at(dot.value), r=4.0))
    parts.append(path("line", "".join(line)))
    return plot(_WIDTH, _HEIGHT, words, *parts, *_versions([dot.version for dot in dots]))


def category_bars(
    bars: Sequence[tuple[str, Mapping[str, float]]], names: Sequence[str], words: str, unit: str = "us per query"
) -> Markup:
    """Of each version the cost of every category, one above the other: by default CPU us per query."""
    at, parts = _scale(0.0, 1.03 * max(sum(costs.values()) for _, costs in bars))
    step = _step(len(bars))
    hues = hue_places(names)
    for place, (version, costs) in enumerate(bars):
        below = 0.0
        for name, hue in zip(names, hues, strict=True):
            us = costs.get(name, 0.0)
            if us <= 0:
                continue
            told = element("title", f"{version}\n{name}: {us:,.2f} {unit}".rstrip())
            top = at(below + us)
            parts.append(element("rect", told, class_=f"segment {hue_class(hue)}", x=_LEFT + step * (place + 0.1),
                                 y=top, width=step * 0.8, height=at(below) - top))  # fmt: skip
            below += us
    return plot(_WIDTH, _HEIGHT, words, *parts, *_versions([version for version, _ in bars]))


def _step(count: int) -> float:
    return (_WIDTH - _RIGHT - _LEFT) / count


class _Scale:
    def __init__(self, low: float, high: float) -> None:
        self.low, self.reach = low, (high - low) or 1.0

    def __call__(self, value: float) -> float:
        return _HEIGHT - _FOOT - (_HEIGHT - _FOOT - _TOP) * (value - self.low) / self.reach


def _scale(low: float, high: float) -> tuple[_Scale, list[Markup]]:
    """Where a value is drawn, and the lines of the axis."""
    high = high if high > low else low + (abs(low) or 1.0) * 0.01
    at = _Scale(low, high)
    step = nice_step((high - low) / 5)
    parts = []
    place = -(-low // step)
    while place * step <= high:
        value = place * step
        y = at(value)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        parts.append(label(f"{value:,.6g}", _LEFT - 6, y + 4, "tick end"))
        place += 1
    return at, parts


def _versions(versions: Sequence[str]) -> list[Markup]:
    step = _step(len(versions))
    every = max(1, -(-16 // int(step)) if step >= 1 else 16)
    made = []
    for place, version in enumerate(versions):
        if place % every == 0:
            x, y = _LEFT + step * (place + 0.5), _HEIGHT - _FOOT + 12
            made.append(element("text", version[:14], class_="tick end", x=x + 3, y=y,
                                transform=f"rotate(-45 {x + 3:.1f} {y})"))  # fmt: skip
    return made
