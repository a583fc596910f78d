"""Latency over time as a heat map: how many requests of each latency ended in each stretch of the window."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ground.results.histogram import Histogram
from ground.results.io_latency import IoLatency, IoSlice
from viz.svg.axes import Axis, duration, linear_axis, log_axis
from viz.svg.elements import element, label, path, plot
from viz.svg.histogram import bins, checked

_WIDTH, _HEIGHT = 1000, 320
_LEFT, _RIGHT, _TOP, _FOOT = 62, 60, 34, 70
_MOST_COLUMNS, _MOST_ROWS = 120, 48
_LEVELS = 6
_LINE = 13  # px from one name to the next above it


@dataclass(frozen=True, slots=True)
class Column:
    """Requests that ended from `begin` to `end`, seconds that were watched; latency in ns."""

    begin: float
    end: float
    latency: Histogram


def columns(io: IoLatency, owner: str) -> list[Column]:
    """Slices of `owner` (`process` or `others`), with neighbours put together where there are too many to see; of turns
    one after the other, without the time between them."""
    each = max(1, math.ceil(len(io.slices) / _MOST_COLUMNS))
    found, begun_ns = list[Column](), 0
    turns = io.turns or [(io.start_ns, io.end_ns)]
    for (start, end), following in zip(turns, [*(begin for begin, _ in turns[1:]), math.inf], strict=True):
        own = [one for one in io.slices if start < one.end_ns <= following]
        groups = [own[place : place + each] for place in range(0, len(own), each)]
        found += _of_turn(groups, start, begun_ns, owner)
        begun_ns += end - start
    return found


def _of_turn(groups: Sequence[Sequence[IoSlice]], start_ns: int, zero_ns: int, owner: str) -> Iterator[Column]:
    """zero_ns: what the turn's beginning counts as, in time that was watched; start_ns: when it was"""
    begin = start_ns
    for group in groups:
        counts: dict[tuple[int, int], int] = {}
        for one in group:
            for low, high, count in one.process if owner == "process" else one.others:
                counts[low, high] = counts.get((low, high), 0) + count
        buckets = [(low, high, counts[low, high]) for low, high in sorted(counts)]
        least, most = (buckets[0][0], buckets[-1][1]) if buckets else (0, 0)
        latency = Histogram(sum(counts.values()), 0, least, most, buckets)
        yield Column((zero_ns + begin - start_ns) / 1e9, (zero_ns + group[-1].end_ns - start_ns) / 1e9, latency)
        begin = group[-1].end_ns


def _edges(full: Sequence[Column]) -> list[float]:
    least = max(min(c.latency.least_ns for c in full), 1)
    most = max(c.latency.most_ns for c in full)
    octaves = max(math.log2(most / least), 0.5)
    each = next((n for n in (8, 4, 2) if octaves * n <= _MOST_ROWS), 1)
    first, last = math.floor(math.log2(least) * each), math.ceil(math.log2(most) * each)
    return [2 ** (place / each) for place in range(first, max(last, first + 1) + 1)]


def heat_map(shown: Sequence[Column], window: str) -> Markup:
    """window: named at the top; some column has requests"""
    full = [column for column in shown if column.latency.count and checked(column.latency)]
    edges = _edges(full)
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
    drawn = _axes(x, y, bottom)
    drawn += [path(f"heat{level}", "".join(parts)) for level, parts in enumerate(cells) if parts]
    lower = math.inf
    for percent, kind in ((50, "p50"), (99, "p99")):
        line, last = _percentile(shown, percent, x, y)
        # A line of the page's colour beneath keeps it apart from whatever cells it crosses.
        drawn += [path("over halo", line), path(f"over {kind}", line)]
        if last is not None:
            # Where both lines end close together, the upper one's name goes above the lower one's.
            lower = min(last[1], lower - _LINE)
            drawn.append(label(kind, last[0] + 4, lower + 4, "tick ink"))
    drawn += [*_key(most, bottom), label(window, _LEFT, 16)]
    drawn.append(path("window-edge", f"M{_LEFT} {_TOP - 12}H{right}M{_LEFT} {_TOP - 12}v6M{right} {_TOP - 12}v6"))
    hover = {
        "x": [_LEFT, *(round(x.at(c.end * 1e9), 1) for c in shown)],
        "t": [0, *(round(c.end, 3) for c in shown)],
        "y": [round(y.at(edge), 1) for edge in edges],
        "edges": [round(edge) for edge in edges],
        "counts": [{row: round(n, 1) for row, n in enumerate(counts) if n >= 0.5} for counts in counted],
        "n": [c.latency.count for c in shown],
        "p": [[round(c.latency.percentile(p) or 0) for p in (50, 99)] for c in shown],
    }
    middle = [c.latency.percentile(50) or 0.0 for c in full]
    tail = [c.latency.percentile(99) or 0.0 for c in full]
    words = (
        f"{window}: {sum(c.latency.count for c in shown):,} reads over {shown[-1].end:.1f} s; "
        f"p50 {duration(min(middle))} to {duration(max(middle))}, p99 {duration(min(tail))} to {duration(max(tail))}"
    )
    return plot(_WIDTH, _HEIGHT, words, *drawn, heat=hover)


def _level(count: float, most: float) -> int:
    """By the logarithm, so that the few slow reads are seen beside the many fast ones."""
    if most <= 1:
        return _LEVELS - 1
    return min(_LEVELS - 1, int(_LEVELS * math.log(max(count, 1)) / math.log(most) * 0.9999))


def _axes(x: Axis, y: Axis, bottom: float) -> list[Markup]:
    drawn = []
    for tick in y.ticks:
        height = y.at(tick)
        drawn.append(path("grid", f"M{_LEFT} {height:.1f}H{_WIDTH - _RIGHT}"))
        drawn.append(label(duration(tick), _LEFT - 6, height + 4, "tick end"))
    drawn += [label(f"{tick / 1e9:g}", x.at(tick), bottom + 16, "tick mid") for tick in x.ticks]
    return [*drawn, label("seconds of the window", (_LEFT + _WIDTH - _RIGHT) / 2, bottom + 32, "tick mid")]


def _percentile(shown: Sequence[Column], percent: float, x: Axis, y: Axis) -> tuple[str, tuple[float, float] | None]:
    """The line as a path, and where it ends; None where the last column has nothing."""
    line: list[str] = []
    last = None
    for column in shown:
        value = column.latency.percentile(percent)
        if value is None:
            last = None
            continue
        begin, end, height = x.at(column.begin * 1e9), x.at(column.end * 1e9), y.at(value)
        line.append(f"{'M' if last is None else 'L'}{begin:.1f} {height:.1f}H{end:.1f}")
        last = (end, height)
    return "".join(line), last


def _key(most: float, bottom: float) -> list[Markup]:
    """The legend of the levels: numbers of reads in a cell."""
    top = bottom + 44
    drawn = [label("reads in a cell:", _LEFT, top + 12, "tick")]
    left = float(_LEFT + 96)
    bounds = [max(1.0, most ** (level / _LEVELS)) for level in range(_LEVELS + 1)]
    for level in range(_LEVELS):
        low, high = math.ceil(bounds[level]), math.ceil(bounds[level + 1]) - (level < _LEVELS - 1)
        if high < low:
            continue
        words = f"{low:,}" if low == high else f"{low:,}\u2013{high:,}"
        drawn.append(element("rect", class_=f"heat{level} edged", x=left, y=top, width=22, height=14))
        drawn.append(label(words, left + 27, top + 12, "tick"))
        left += 27 + 7 * len(words) + 16
    return drawn
