"""A histogram of durations as a plot, on a log or a linear scale, with its percentiles marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ground.results.histogram import Histogram
from viz.figures import CannotBeError
from viz.svg.axes import Axis, duration, linear_axis, log_axis, nice_step
from viz.svg.elements import element, label, path, plot

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
_WIDTH, _HEIGHT = 900, 250
_LEFT, _RIGHT, _TOP, _FOOT = 50, 20, 52, 36
_MOST_BINS = 90
_CHAR = 6.2  # px of a character of a mark, roughly


@dataclass(frozen=True, slots=True)
class Named:
    """A histogram with the name of its button, and what it counts in a sentence."""

    name: str
    about: str
    histogram: Histogram


def checked(histogram: Histogram) -> Histogram:
    """`histogram`, if its figures can be; CannotBeError otherwise."""
    if histogram.count <= 0 or any(count < 0 or not 0 <= low < high for low, high, count in histogram.buckets):
        raise CannotBeError(f"a histogram of {histogram.count:,} durations with {histogram.buckets[:3]}")
    return histogram


def bins(histogram: Histogram, edges: Sequence[float]) -> list[float]:
    """How many durations lie between each two edges: buckets across an edge are split by their width."""
    found = [0.0] * (len(edges) - 1)
    place = 0
    for low, high, count in histogram.buckets:
        while place > 0 and edges[place] > low:
            place -= 1
        while place < len(found) and edges[place + 1] <= low:
            place += 1
        at = place
        while at < len(found) and edges[at] < high:
            part = min(high, edges[at + 1]) - max(low, edges[at])
            if part > 0:
                found[at] += count * part / (high - low)
            at += 1
    return found


def _log_edges(low: float, high: float) -> list[float]:
    octaves = max(math.log2(high / low), 0.25)
    each = next((n for n in (32, 16, 8, 4, 2) if octaves * n <= _MOST_BINS), 1)
    first, last = math.floor(math.log2(low) * each), math.ceil(math.log2(high) * each)
    return [2 ** (place / each) for place in range(first, max(last, first + 1) + 1)]


def _linear_edges(low: float, high: float) -> list[float]:
    step = nice_step(max((high - low) / _MOST_BINS, 1))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * place for place in range(first, max(last, first + 1) + 1)]


def histogram(one: Named, scale: str, what: str) -> Markup:
    """scale: log or linear; what: what is counted, in the plural (`reads`)"""
    h = checked(one.histogram)
    low, high = max(h.buckets[0][0], 1), float(h.buckets[-1][1])  # beyond the least and the most, by part of a bucket
    note = ""
    left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _FOOT
    if scale == "log":
        edges = _log_edges(low, high)
        axis = log_axis(edges[0], edges[-1], left, right)
    else:
        cut = h.percentile(99.5) or high
        if high > 1.5 * cut:
            note = f"; the longest 0.5 %, up to {duration(h.most_ns)}, lie beyond"
            high = cut
        edges = _linear_edges(low, high)
        axis = linear_axis(edges[0], edges[-1], left, right)
    counts = bins(h, edges)
    most = max(counts) / h.count or 1.0
    step = nice_step(100 * most / 3)
    ceiling = step * math.ceil(100 * most / step - 1e-9)
    per = (bottom - top) / ceiling

    def y(count: float) -> float:
        return bottom - per * 100 * count / h.count

    drawn = _grid(axis, ceiling, step, per, bottom)
    steps = "".join(f"V{y(count):.1f}H{axis.at(edges[place + 1]):.1f}" for place, count in enumerate(counts))
    drawn.append(path("bars", f"M{axis.at(edges[0]):.1f} {bottom}{steps}V{bottom}Z"))
    drawn += _marks(h, axis, bottom, high)
    drawn.append(label(f"{one.name}: {one.about}; % of {h.count:,} {what}", left, 14))
    foot = f"{scale} scale; n {h.count:,}, avg {duration(h.mean_ns or 0)}, sum {duration(h.sum_ns)}{note}"
    drawn.append(label(foot, (left + right) / 2, _HEIGHT - 4, "tick mid"))
    hover = {
        "scale": scale, "left": left, "right": right, "top": top, "bottom": bottom,
        "edges": [round(edge) for edge in edges], "counts": [round(count, 1) for count in counts],
        "n": h.count, "what": what,
    }  # fmt: skip
    told = ", ".join(f"p{p:g} {duration(h.percentile(p) or 0)}" for p in PERCENTILES)
    words = f"{one.name}, {one.about}: n {h.count:,}, avg {duration(h.mean_ns or 0)}, {told}, max {duration(h.most_ns)}"
    return plot(_WIDTH, _HEIGHT, words, *drawn, hist=hover)


def _grid(axis: Axis, ceiling: float, step: float, per: float, bottom: float) -> list[Markup]:
    drawn = []
    for place in range(round(ceiling / step) + 1):
        y = bottom - per * step * place
        drawn.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        drawn.append(label(f"{step * place:g}", _LEFT - 6, y + 4, "tick end"))
    taken = -math.inf
    for tick in axis.ticks:
        x, words = axis.at(tick), duration(tick)
        half = len(words) * _CHAR / 2
        if x - half > taken and x + half < _WIDTH:
            drawn += [label(words, x, bottom + 16, "tick mid"), path("grid", f"M{x:.1f} {bottom}v4")]
            taken = x + half + 8
    return drawn


def _marks(h: Histogram, axis: Axis, bottom: float, high: float) -> list[Markup]:
    """A line for each percentile, its name beside it where there is room: right of it or left, in one of two rows."""
    marks = []
    for percent in PERCENTILES:
        value = h.percentile(percent)
        if value is not None and value <= high and h.count * (1 - percent / 100) >= 1:
            marks.append((axis.at(value), f"p{percent:g} {duration(value)}"))
    drawn = []
    taken = [-math.inf, -math.inf]  # by row: how far names and lines reach
    for place, (x, words) in enumerate(marks):
        wide = len(words) * _CHAR
        following = marks[place + 1][0] if place + 1 < len(marks) else math.inf
        right, left = x + 3, x - 3 - wide
        fits_right, fits_left = right + wide < _WIDTH, left > _LEFT
        # Every line runs through the lower row, and through the upper one those alone that are named there.
        spots = [
            (0, right, fits_right and right > taken[0] and right + wide < following),
            (0, left, fits_left and left > taken[0]),
            (1, right, fits_right and right > taken[1]),
            (1, left, fits_left and left > taken[1]),
        ]
        row, begin = next(((row, begin) for row, begin, is_free in spots if is_free), (-1, 0.0))
        drawn.append(path("mark", f"M{x:.1f} {_TOP - 4 - 13 * max(row, 0)}V{bottom}"))
        taken[0] = max(taken[0], x + 3)
        if row >= 0:
            taken[row] = max(x + 3, begin + wide + 6)
            drawn.append(label(words, begin, _TOP + 6 - 13 * row, "tick ink clear"))
    return drawn
