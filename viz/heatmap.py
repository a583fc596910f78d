"""Latency over time as a heat map: how many requests of each latency ended in each stretch of the window."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioflame.histogram import Histogram
from ioflame.latency import IoSlice
from viz.axes import Axis, duration, linear_axis, log_axis
from viz.histograms import bins
from viz.markup import figure, svg_button, table, text

__all__ = ("Column", "columns", "heat_map")

_WIDTH, _HEIGHT = 1000, 320
_LEFT, _RIGHT, _TOP, _FOOT = 62, 60, 34, 70
_MOST_COLUMNS, _MOST_ROWS = 120, 48
_LEVELS = 6
_LINE = 13  # px from one name to the next above it


@dataclass(frozen=True, slots=True)
class Column:
    """Requests that ended from `begin` to `end`, seconds of the window; latency in ns."""

    begin: float
    end: float
    latency: Histogram


def columns(slices: Sequence[IoSlice], start_ns: int, owner: str) -> list[Column]:
    """The slices of `owner` (`process` or `others`), with neighbours put together where there are too many to see."""
    each = max(1, math.ceil(len(slices) / _MOST_COLUMNS))
    found = []
    begin = start_ns
    for place in range(0, len(slices), each):
        group = slices[place : place + each]
        counts: dict[tuple[int, int], int] = {}
        for one in group:
            for low, high, count in one.process if owner == "process" else one.others:
                counts[low, high] = counts.get((low, high), 0) + count
        buckets = [(low, high, counts[low, high]) for low, high in sorted(counts)]
        least, most = (buckets[0][0], buckets[-1][1]) if buckets else (0, 0)
        latency = Histogram(sum(counts.values()), 0, least, most, buckets)
        found.append(Column((begin - start_ns) / 1e9, (group[-1].end_ns - start_ns) / 1e9, latency))
        begin = group[-1].end_ns
    return found


def heat_map(title: str, shown: Sequence[Column], window: str, note: str) -> str:
    """The plot, its legend, and the same by column as a table; empty where nothing ended."""
    if not any(column.latency.count for column in shown):
        return ""
    plot = (
        '<div class="wide scroll" tabindex="0" role="group" aria-label="heat map of latency over time">'
        f"{_draw(shown, window)}</div>"
    )
    rows = []
    for column in shown:
        h = column.latency
        cells = [f"{(h.percentile(p) or 0) / 1e3:,.1f}" if h.count else "-" for p in (50, 90, 99)]
        rows.append([f"{column.begin:.2f} \u2013 {column.end:.2f}", f"{h.count:,}", *cells, f"{h.most_ns / 1e3:,.1f}"])
    heads = ["seconds", "reads", "p50, us", "p90, us", "p99, us", "below, us"]
    return figure(text(title), plot, note, svg_button("heatmap.svg")) + (
        '<details class="by-second"><summary>The same as a table</summary>'
        + figure("Read latency over time", table(heads, rows, "numbers"))
        + "</details>"
    )


def _edges(shown: Sequence[Column]) -> list[float]:
    least = max(min(c.latency.least_ns for c in shown if c.latency.count), 1)
    most = max(c.latency.most_ns for c in shown)
    octaves = max(math.log2(most / least), 0.5)
    each = next((n for n in (8, 4, 2) if octaves * n <= _MOST_ROWS), 1)
    first, last = math.floor(math.log2(least) * each), math.ceil(math.log2(most) * each)
    return [2 ** (place / each) for place in range(first, max(last, first + 1) + 1)]


def _draw(shown: Sequence[Column], window: str) -> str:
    edges = _edges(shown)
    bottom, right = _HEIGHT - _FOOT, _WIDTH - _RIGHT
    x = linear_axis(0, shown[-1].end * 1e9, _LEFT, right, 10)
    y = log_axis(edges[0], edges[-1], bottom, _TOP)
    counted = [bins(column.latency, edges) for column in shown]
    most = max(max(counts) for counts in counted)
    cells: list[list[str]] = [[] for _ in range(_LEVELS)]
    for column, counts in zip(shown, counted, strict=True):
        left, wide = x.at(column.begin * 1e9), x.at(column.end * 1e9) - x.at(column.begin * 1e9)
        for row, count in enumerate(counts):
            if count >= 0.5:
                high, low = y.at(edges[row + 1]), y.at(edges[row])
                cells[_level(count, most)].append(f"M{left:.1f} {high:.1f}h{wide:.1f}v{low - high:.1f}h-{wide:.1f}z")
    lines = _axes(x, y, bottom)
    lines += [f'<path class="heat{level}" d="{"".join(path)}"/>' for level, path in enumerate(cells) if path]
    lower = math.inf
    for percent, kind in ((50, "p50"), (99, "p99")):
        path, last = _percentile(shown, percent, x, y)
        # A line of the page's colour beneath keeps it apart from whatever cells it crosses.
        lines += [f'<path class="over halo" d="{path}"/><path class="over {kind}" d="{path}"/>']
        if last is not None:
            # Where both lines end close together, the upper one's name goes above the lower one's.
            lower = min(last[1], lower - _LINE)
            lines.append(f'<text class="tick ink" x="{last[0] + 4:.1f}" y="{lower + 4:.1f}">{kind}</text>')
    lines += _key(most, bottom)
    lines.append(f'<text class="label" x="{_LEFT}" y="16">{text(window)}</text>')
    lines.append(
        f'<path class="window-edge" d="M{_LEFT} {_TOP - 12}H{right}M{_LEFT} {_TOP - 12}v6M{right} {_TOP - 12}v6"/>'
    )
    hover = {
        "x": [_LEFT, *(round(x.at(c.end * 1e9), 1) for c in shown)],
        "t": [0, *(round(c.end, 3) for c in shown)],
        "y": [round(y.at(edge), 1) for edge in edges],
        "edges": [round(edge) for edge in edges],
        "counts": [{row: round(n, 1) for row, n in enumerate(counts) if n >= 0.5} for counts in counted],
        "n": [c.latency.count for c in shown],
        "p": [[round(c.latency.percentile(p) or 0) for p in (50, 99)] for c in shown],
    }
    full = [c for c in shown if c.latency.count]
    middle = [c.latency.percentile(50) or 0.0 for c in full]
    tail = [c.latency.percentile(99) or 0.0 for c in full]
    words = (
        f"{window}: {sum(c.latency.count for c in shown):,} reads over {shown[-1].end:.1f} s; "
        f"p50 {duration(min(middle))} to {duration(max(middle))}, p99 {duration(min(tail))} to {duration(max(tail))}"
    )
    return (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{text(words)}" data-heat="{text(json.dumps(hover, separators=(",", ":")))}">'
        f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>{"".join(lines)}</svg>'
    )


def _level(count: float, most: float) -> int:
    """By the logarithm, so that the few slow reads are seen beside the many fast ones."""
    if most <= 1:
        return _LEVELS - 1
    return min(_LEVELS - 1, int(_LEVELS * math.log(max(count, 1)) / math.log(most) * 0.9999))


def _axes(x: Axis, y: Axis, bottom: float) -> list[str]:
    lines = []
    for tick in y.ticks:
        height = y.at(tick)
        lines.append(f'<path class="grid" d="M{_LEFT} {height:.1f}H{_WIDTH - _RIGHT}"/>')
        lines.append(f'<text class="tick end" x="{_LEFT - 6}" y="{height + 4:.1f}">{duration(tick)}</text>')
    for tick in x.ticks:
        lines.append(f'<text class="tick mid" x="{x.at(tick):.1f}" y="{bottom + 16}">{tick / 1e9:g}</text>')
    lines.append(
        f'<text class="tick mid" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{bottom + 32}">seconds of the window</text>'
    )
    return lines


def _percentile(shown: Sequence[Column], percent: float, x: Axis, y: Axis) -> tuple[str, tuple[float, float] | None]:
    """The line as a path, and where it ends; None where the last column has nothing."""
    path: list[str] = []
    last = None
    for column in shown:
        value = column.latency.percentile(percent)
        if value is None:
            last = None
            continue
        begin, end, height = x.at(column.begin * 1e9), x.at(column.end * 1e9), y.at(value)
        path.append(f"{'M' if last is None else 'L'}{begin:.1f} {height:.1f}H{end:.1f}")
        last = (end, height)
    return "".join(path), last


def _key(most: float, bottom: float) -> list[str]:
    """What each level stands for: numbers of reads in a cell."""
    top = bottom + 44
    lines = [f'<text class="tick" x="{_LEFT}" y="{top + 12}">reads in a cell:</text>']
    left = float(_LEFT + 96)
    bounds = [max(1.0, most ** (level / _LEVELS)) for level in range(_LEVELS + 1)]
    for level in range(_LEVELS):
        low, high = math.ceil(bounds[level]), math.ceil(bounds[level + 1]) - (level < _LEVELS - 1)
        if high < low:
            continue
        words = f"{low:,}" if low == high else f"{low:,}\u2013{high:,}"
        lines.append(
            f'<rect class="heat{level} edged" x="{left:.1f}" y="{top}" width="22" height="14"/>'
            f'<text class="tick" x="{left + 27:.1f}" y="{top + 12}">{words}</text>'
        )
        left += 27 + 7 * len(words) + 16
    return lines
