"""Latency over the rate at which queries come: a line a percentile, the limit, and the rate of the run without one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from ground.results.sweep import PERCENTILES, SweepRecord
from viz.svg.axes import duration, linear_axis, log_axis
from viz.svg.elements import element, label, path, plot

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FOOT = 1000, 340, 72, 24, 22, 46
# Latencies are us, axes of durations ns.
_NS = 1e3
# Room above and below, as a factor.
_SPARE = 1.3


def sweep_plot(record: SweepRecord, words: str) -> Markup:
    """Hues are in the order of PERCENTILES. A rate that was overloaded is a cross at the top."""
    shown = sorted((one for one in record.offered if one.rate is not None), key=lambda one: one.rate or 0.0)
    told = [one for one in shown if one.latency]
    values = [one.latency[name] for one in told for name in PERCENTILES]
    values += [record.limit_us] if record.limit_us else []
    if not values:
        return plot(_WIDTH, _HEIGHT, words, label("every rate was overloaded", _LEFT, _TOP + 20))
    y = log_axis(min(values) / _SPARE * _NS, max(values) * _SPARE * _NS, _HEIGHT - _FOOT, _TOP)
    most = max([record.closed.per_second, *(one.rate or 0.0 for one in shown)])
    x = linear_axis(0, most * 1.05, _LEFT, _WIDTH - _RIGHT)
    parts: list[Markup] = []
    for tick in y.ticks:
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y.at(tick), y2=y.at(tick)))
        parts.append(label(duration(tick), _LEFT - 6, y.at(tick) + 4, "tick end"))
    parts += [label(f"{tick:,.0f}", x.at(tick), _HEIGHT - 28, "tick mid") for tick in x.ticks]
    parts.append(label("queries a second that became due", _WIDTH - _RIGHT, _HEIGHT - 8, "tick end"))
    if record.limit_us:
        at = y.at(record.limit_us * _NS)
        parts.append(element("line", class_="mark", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at))
        parts.append(label(f"limit of {record.percentile}", _LEFT + 4, at - 5, "tick"))
    at = x.at(record.closed.per_second)
    parts.append(element("line", class_="mark", x1=at, x2=at, y1=_TOP, y2=_HEIGHT - _FOOT))
    parts.append(label("without a rate", at - 4, _TOP - 8, "tick end"))
    for hue, name in enumerate(PERCENTILES):
        points = [(x.at(one.rate or 0.0), y.at(one.latency[name] * _NS)) for one in told]
        parts += _line(points, hue)
        for (across, down), one in zip(points, told, strict=True):
            title = element("title", f"{one.rate:,.0f} a second: {name} {duration(one.latency[name] * _NS)}")
            parts.append(element("circle", title, class_=f"h{hue} edged segment", cx=across, cy=down, r=3.6))
    for one in shown:
        if one.overloaded:
            title = element("title", f"{one.rate:,.0f} a second: overloaded")
            d = f"M{x.at(one.rate or 0.0) - 5:.1f} {_TOP + 2}l10 10m0 -10l-10 10"
            parts.append(element("path", title, class_="trace h1", d=d))
    return plot(_WIDTH, _HEIGHT, words, *parts)


def _line(points: Sequence[tuple[float, float]], hue: int) -> list[Markup]:
    return [path(f"trace h{hue}", f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}") for (a, b), (c, d) in pairwise(points)]
