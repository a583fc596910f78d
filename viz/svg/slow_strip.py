"""Slow queries as dots over their window, over the jobs that ran and what the device had besides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from markupsafe import Markup

from ground.results.tail import Strip
from viz.svg.axes import duration, linear_axis, log_axis
from viz.svg.elements import element, label, plot
from viz.svg.job_lanes import Bar, Lane, drawn_lanes, lanes_height
from viz.svg.timeline import Point, TimePanel, TimeSeries, drawn_panel

_WIDTH, _DOTS, _LINES = 1000, 170, 70
_LEFT, _RIGHT, _TOP, _GAP, _FOOT = 62, 110, 26, 34, 38
_SERIES = ("reads", "writes")


def slow_strip(strip: Strip) -> Markup:
    """A dot is a slow query where it began: height is its duration. Below, jobs as bars and other requests as lines."""
    at = linear_axis(0, strip.seconds * 1e9, _LEFT, _WIDTH - _RIGHT)

    def x(second: float) -> float:
        return at.at(second * 1e9)

    top = _TOP + _DOTS + _GAP
    lanes = [
        Lane(name, name, [Bar(begin, end, f"{name}, {begin:.2f} to {end:.2f} s") for _, begin, end in bars])
        for name, bars in groupby(sorted(strip.jobs), key=lambda job: job[0])
    ]
    parts = [*_dots(strip, x), *drawn_lanes(lanes, top, _WIDTH - _RIGHT, x)]
    top += lanes_height(lanes) + (_GAP if lanes else 0)
    if strip.beside:
        parts += drawn_panel(_beside(strip), top, _LINES, _WIDTH - _RIGHT, x)
        top += _LINES + 8
    for tick in at.ticks:
        parts.append(element("line", class_="grid", x1=at.at(tick), x2=at.at(tick), y1=_TOP, y2=top))
        parts.append(label(f"{tick / 1e9:g}", at.at(tick), top + 14, "tick middle"))
    parts.append(label("seconds of the window", _LEFT, top + 30, "tick"))
    words = f"{strip.queries:,} slow queries over {strip.seconds:.1f} s"
    return plot(_WIDTH, top + _FOOT, words, *parts)


def _dots(strip: Strip, x: Callable[[float], float]) -> list[Markup]:
    lengths = [us * 1e3 for _, us in strip.slow]
    up = log_axis(min(lengths, default=1.0), max(lengths, default=10.0), _TOP + _DOTS, _TOP)
    parts = [label("slow queries, by when they began", 4, _TOP - 10)]
    for tick in up.ticks:
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=up.at(tick), y2=up.at(tick)))
        parts.append(label(duration(tick), _LEFT - 6, up.at(tick) + 4, "tick end"))
    parts += [element("circle", class_="slow", cx=x(second), cy=up.at(us * 1e3), r=1.6) for second, us in strip.slow]
    return parts


def _beside(strip: Strip) -> TimePanel:
    series = [
        TimeSeries(name, [Point(one[0], one[0] + strip.bin_seconds, one[1 + place]) for one in strip.beside])
        for place, name in enumerate(_SERIES)
    ]
    return TimePanel("requests that the device had besides", ",.1f", series)
