"""Histograms of durations as plots: log and linear, percentiles marked. Which of several is shown, the reader picks."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioflame.histogram import Histogram
from viz.axes import Axis, duration, linear_axis, log_axis, nice_step, us
from viz.markup import copy_tools, figure, svg_button, table, text

__all__ = ("PERCENTILES", "Named", "bins", "histograms", "percentile_table")

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


def histograms(title: str, series: Sequence[Named], what: str, saved: str, note: str = "") -> str:
    """A figure with a button for each histogram, and one for the scale; empty ones have none.

    what: what is counted, in the plural (`reads`); saved: the name of the SVG file; note: markup below
    """
    shown = [one for one in series if one.histogram.buckets]
    if not shown:
        return ""
    picks = "".join(
        f'<button type="button" data-series="{place}" aria-pressed="{str(not place).lower()}">{text(one.name)}</button>'
        for place, one in enumerate(shown)
    )
    scales = "".join(
        f'<button type="button" data-scale="{scale}" aria-pressed="{str(scale == "log").lower()}">{scale}</button>'
        for scale in ("log", "linear")
    )
    plots = "".join(
        f'<div class="wide scroll" tabindex="0" role="group" aria-label="{text(one.name)}, {scale} scale"'
        f' data-of="{place}" data-at="{scale}"{" hidden" if place or scale == "linear" else ""}>'
        f"{_draw(one, scale, what)}</div>"
        for place, one in enumerate(shown)
        for scale in ("log", "linear")
    )
    return figure(
        text(title),
        f'<div class="choices scripted"><div role="group" aria-label="which histogram">{picks}</div>'
        f'<div role="group" aria-label="scale of the latency">{scales}</div>'
        f'<span class="quiet">arrow keys walk the bars of a plot that has the focus</span></div>{plots}',
        note,
        svg_button(saved),
    ).replace("<figure>", '<figure class="histograms">', 1)


def percentile_table(title: str, series: Sequence[Named], note: str = "") -> str:
    """n, sum, mean and percentiles of each histogram, in us."""
    rows = []
    for one in series:
        h = one.histogram
        if h.count:
            cells = [us(h.percentile(percent)) for percent in PERCENTILES]
            rows.append(
                [text(one.name), f"{h.count:,}", f"{h.sum_ns / 1e6:,.3f}", us(h.mean_ns), *cells, us(h.most_ns)]
            )
    heads = ["us", "n", "sum, ms", "avg", *(f"p{percent:g}" for percent in PERCENTILES), "max"]
    return figure(text(title), table(heads, rows, "numbers"), note, copy_tools()) if rows else ""


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


def _draw(one: Named, scale: str, what: str) -> str:
    h = one.histogram
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

    lines = _grid(axis, ceiling, step, per, bottom)
    path = [f"M{axis.at(edges[0]):.1f} {bottom}"]
    for place, count in enumerate(counts):
        path.append(f"V{y(count):.1f}H{axis.at(edges[place + 1]):.1f}")
    lines.append(f'<path class="bars" d="{"".join(path)}V{bottom}Z"/>')
    lines += _marks(h, axis, bottom, high)
    lines.append(
        f'<text class="label" x="{left}" y="14">{text(f"{one.name}: {one.about}; % of {h.count:,} {what}")}</text>'
        f'<text class="tick mid" x="{(left + right) / 2}" y="{_HEIGHT - 4}">'
        f"{scale} scale; n {h.count:,}, avg {duration(h.mean_ns or 0)}, sum {duration(h.sum_ns)}{text(note)}</text>"
    )
    hover = {
        "scale": scale, "left": left, "right": right, "top": top, "bottom": bottom,
        "edges": [round(edge) for edge in edges], "counts": [round(count, 1) for count in counts],
        "n": h.count, "what": what,
    }  # fmt: skip
    told = ", ".join(f"p{p:g} {duration(h.percentile(p) or 0)}" for p in PERCENTILES)
    words = f"{one.name}, {one.about}: n {h.count:,}, avg {duration(h.mean_ns or 0)}, {told}, max {duration(h.most_ns)}"
    return (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{text(words)}" data-hist="{text(json.dumps(hover, separators=(",", ":")))}">'
        f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>{"".join(lines)}</svg>'
    )


def _grid(axis: Axis, ceiling: float, step: float, per: float, bottom: float) -> list[str]:
    lines = []
    for place in range(round(ceiling / step) + 1):
        height = bottom - per * step * place
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
            f'<text class="tick end" x="{_LEFT - 6}" y="{height + 4:.1f}">{step * place:g}</text>'
        )
    taken = -math.inf
    for tick in axis.ticks:
        x = axis.at(tick)
        words = duration(tick)
        half = len(words) * _CHAR / 2
        if x - half > taken and x + half < _WIDTH:
            lines.append(f'<text class="tick mid" x="{x:.1f}" y="{bottom + 16}">{words}</text>')
            lines.append(f'<path class="grid" d="M{x:.1f} {bottom}v4"/>')
            taken = x + half + 8
    return lines


def _marks(h: Histogram, axis: Axis, bottom: float, high: float) -> list[str]:
    """A line for each percentile, its name beside it where there is room: right of it or left, in one of two rows."""
    marks = []
    for percent in PERCENTILES:
        value = h.percentile(percent)
        if value is not None and value <= high and h.count * (1 - percent / 100) >= 1:
            marks.append((axis.at(value), f"p{percent:g} {duration(value)}"))
    lines = []
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
        lines.append(f'<path class="mark" d="M{x:.1f} {_TOP - 4 - 13 * max(row, 0)}V{bottom}"/>')
        taken[0] = max(taken[0], x + 3)
        if row >= 0:
            taken[row] = max(x + 3, begin + wide + 6)
            lines.append(f'<text class="tick ink clear" x="{begin:.1f}" y="{_TOP + 6 - 13 * row}">{words}</text>')
    return lines
