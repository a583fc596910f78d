"""The time line of a run, second by second: QPS, IOPS, CPU and the device's read latency, with the windows shaded.

QPS comes from the engine's report, the rest from the counters of `series.json`, which has no warm-up in it. Panels
share one axis: the seconds of the engine's report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ioflame.record import Counters, Window
from viz.markup import copy_tools, figure, svg_button, table, text
from viz.timebase import TimeBase, time_base

__all__ = ("Panel", "Point", "Series", "panels", "timeline")

_WIDTH, _PANEL = 1000, 118
_LEFT, _RIGHT, _TOP, _GAP, _FOOT = 62, 76, 40, 26, 38
_CHAR = 8  # px of a label, roughly
_UNOBSERVED = ("warm-up", "plain")
_JOINED = 0.5  # seconds between two points that still make one line


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of `value` from `begin` to `end`, seconds of the axis."""

    begin: float
    end: float
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """name: as the legend says it; empty where a panel has one series alone. points: in order of time"""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Panel:
    """title: what and in which unit; form: of a value in the table"""

    title: str
    form: str
    series: Sequence[Series]


def timeline(rates: Sequence[int], windows: Sequence[Window], slices: Sequence[Window], report_ns: int | None) -> str:
    """The plot, the same figures as a table, and what has to be said about both.

    rates: queries of each second of the engine's report; slices: of `Run.series`; report_ns: the CLOCK_MONOTONIC
    moment of the report's second 0, None where the run did not record it
    """
    if not rates and not slices:
        return (
            '<p class="absent">No time line: neither the engine\'s report by second nor counters are in this run.</p>'
        )
    base = time_base(rates, windows, report_ns)
    notes, axis = [], "seconds of the engine's report"
    if base is not None:
        notes += [base.how] if base.how else []
    elif slices:
        why = "fits the windows at no shift" if rates else "is not in this run"
        notes.append(f"The engine's report {why}: QPS is from the windows' own counts.")
        rates, base = [], TimeBase((windows or slices)[0].start_ns, "")
        axis = "seconds since the first window began"
    elif windows:
        notes.append("The windows are not drawn: their counts do not fit the engine's seconds at any shift.")
    if not slices:
        notes.append("IOPS, CPU and read latency are not shown: this run kept no counters by second.")
    drawn = panels(rates, slices, base)
    shaded = [] if base is None else [_span(window, base) for window in windows]
    whole = max([float(len(rates)), *(end for _, _, end in shaded), *(p.end for p in _points(drawn))])
    note = (
        "CPU in CPUs: seconds of CPU per second, of the process alone. Read latency: the time the device held reads, "
        "by the number of reads (diskstats), whoever sent them. Counters are not kept for the warm-up. "
    )
    if shaded:
        note += "Blue: plain windows, with nothing attached; orange: windows of observers. "
    told = figure("Second by second", _draw(drawn, shaded, whole, axis), text(note + " ".join(notes)),
                  svg_button("timeline.svg"))  # fmt: skip
    return told + _table(drawn, shaded)


def panels(rates: Sequence[int], slices: Sequence[Window], base: TimeBase | None) -> list[Panel]:
    """What is drawn; counters need `base`, for without it nobody knows where on the axis they lie."""
    reported = Panel("QPS", ",.0f", [Series("", [Point(i, i + 1, rate) for i, rate in enumerate(rates)])])
    if base is None:
        return [reported] if rates else []

    def series(name: str, value: Callable[[Counters, float], float | None]) -> Series:
        points = []
        for one in slices:
            figure = value(one.counters, one.seconds) if one.seconds > 0 else None
            if figure is not None:
                points.append(Point(_second(one.start_ns, base), _second(one.end_ns, base), figure))
        return Series(name, points)

    found = [
        reported if rates else Panel("QPS", ",.0f", [series("", _queries)]),
        Panel("IOPS", ",.0f", [series("", lambda c, s: c.storage_reads / s)]),
        Panel("CPU", ".3f", [series("user", lambda c, s: c.user_ns / 1e9 / s),
                             series("system", lambda c, s: c.system_ns / 1e9 / s)]),
        Panel("read latency, us", ",.1f", [series("", lambda c, _: _latency(c))]),
    ]  # fmt: skip
    return [panel for panel in found if any(one.points for one in panel.series)]


def _queries(counters: Counters, seconds: float) -> float | None:
    return None if counters.queries is None else counters.queries / seconds


def _latency(counters: Counters) -> float | None:
    return 1000 * counters.storage_read_ms / counters.storage_reads if counters.storage_reads else None


def _second(moment_ns: int, base: TimeBase) -> float:
    return (moment_ns - base.start_ns) / 1e9


def _span(window: Window, base: TimeBase) -> tuple[str, float, float]:
    return window.kind, _second(window.start_ns, base), _second(window.end_ns, base)


def _points(drawn: Iterable[Panel]) -> Iterable[Point]:
    return (point for panel in drawn for one in panel.series for point in one.points)


def _draw(drawn: Sequence[Panel], shaded: Sequence[tuple[str, float, float]], whole: float, axis: str) -> str:
    wide = _WIDTH - _LEFT - _RIGHT
    whole = max(whole, 1.0)
    bottom = _TOP + len(drawn) * (_PANEL + _GAP) - _GAP

    def x(second: float) -> float:
        return _LEFT + wide * max(0.0, min(second, whole)) / whole

    lines = []
    taken = [0.0, 0.0]  # up to where each of the two rows of labels is written
    for kind, begin, end in shaded:
        wide_enough = x(end) - x(begin) >= _CHAR * len(kind)
        row = next((row for row in (0, 1) if x(begin) >= taken[row]), None)
        # Of a plain window that is too short for its name, the shade says enough.
        if row is not None and (wide_enough or kind not in _UNOBSERVED):
            taken[row] = x(begin) + _CHAR * len(kind)
            lines.append(f'<text class="label" x="{x(begin) + 3:.1f}" y="{_TOP - 26 + 14 * row}">{text(kind)}</text>')
    for kind, begin, end in shaded:
        shade = kind if kind in _UNOBSERVED else "observed"
        for index in range(len(drawn)):
            lines.append(
                f'<rect class="window {shade}" x="{x(begin):.1f}" y="{_TOP + index * (_PANEL + _GAP)}"'
                f' width="{x(end) - x(begin):.1f}" height="{_PANEL}">'
                f"<title>{text(kind)}, {end - begin:.1f} s</title></rect>"
            )
    for index, panel in enumerate(drawn):
        lines += _panel(panel, _TOP + index * (_PANEL + _GAP), x)
    every = max(1, round(_nice(whole / 10)))
    for second in range(0, int(whole) + 1, every):
        lines.append(f'<text class="tick mid" x="{x(second):.1f}" y="{bottom + 16}">{second}</text>')
    lines.append(f'<text class="tick mid" x="{_LEFT + wide / 2}" y="{bottom + 32}">{axis}</text>')
    height = bottom + _FOOT
    words = "; ".join(_told(panel) for panel in drawn)
    return (
        f'<svg class="plot time" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="by second: {text(words)}"><rect class="page" width="{_WIDTH}" height="{height}"/>'
        f"{''.join(lines)}</svg>"
    )


def _told(panel: Panel) -> str:
    parts = []
    for one in panel.series:
        values = [point.value for point in one.points]
        if values:
            name = f"{panel.title} {one.name}".strip()
            parts.append(f"{name} {min(values):{panel.form}} to {max(values):{panel.form}}")
    return ", ".join(parts)


def _panel(panel: Panel, top_edge: float, x: Callable[[float], float]) -> list[str]:
    top = _nice(max((point.value for one in panel.series for point in one.points), default=0) or 1)

    def y(value: float) -> float:
        return top_edge + _PANEL * (1 - value / top)

    lines = []
    for part in range(3):
        value = top * part / 2
        digits = 0 if top >= 20 else 1 if top >= 2 else 2
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            f'<text class="tick end" x="{_LEFT - 6}" y="{y(value) + 4:.1f}">{value:,.{digits}f}</text>'
        )
    lines.append(f'<text class="label" x="4" y="{top_edge - 9}">{text(panel.title)}</text>')
    marks = []  # where the names of several series go: at their last points, apart from each other
    for place, one in enumerate(panel.series):
        for run in _runs(one.points):
            middles = [((point.begin + point.end) / 2, point.value) for point in run]
            middles = [(run[0].begin, run[0].value), *middles, (run[-1].end, run[-1].value)]
            path = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in middles)
            lines.append(f'<polyline class="line s{place}" points="{path}"/>')
        if one.name and one.points:
            marks.append((y(one.points[-1].value), x(one.points[-1].end), one.name, place))
    below = float("-inf")
    for height, right, name, place in sorted(marks):
        below = max(height, below + 13)
        lines.append(f'<text class="label t{place}" x="{right + 5:.1f}" y="{below + 4:.1f}">{text(name)}</text>')
    return lines


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """The points in stretches without a hole: nothing is drawn over seconds that nobody counted."""
    found: list[list[Point]] = []
    for point in points:
        if found and point.begin - found[-1][-1].end <= _JOINED:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def _table(drawn: Sequence[Panel], shaded: Sequence[tuple[str, float, float]]) -> str:
    """One row for each second of the axis: the mean of what covers its middle; `-` where nothing does."""
    columns = [(panel, one) for panel in drawn for one in panel.series]
    last = max((point.end for point in _points(drawn)), default=0.0)
    rows = []
    for second in range(int(last) + 1):
        middle = second + 0.5
        cells = [_cell(one.points, middle, panel.form) for panel, one in columns]
        if any(cell != "-" for cell in cells):
            kind = next((kind for kind, begin, end in shaded if begin <= middle < end), "-")
            rows.append([str(second), text(kind), *cells])
    heads = ["second", "window", *(text(f"{panel.title} {one.name}".strip()) for panel, one in columns)]
    return (
        '<details class="by-second"><summary>The same as a table</summary>'
        + figure("By second", table(heads, rows, "numbers"), "", copy_tools())
        + "</details>"
    )


def _cell(points: Sequence[Point], middle: float, form: str) -> str:
    found = next((point for point in points if point.begin <= middle < point.end), None)
    return "-" if found is None else f"{found.value:{form}}"


def _nice(value: float) -> float:
    """The least of 1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8 times a power of ten that is not below `value`."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if power * step >= value)
