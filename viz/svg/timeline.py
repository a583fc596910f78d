"""A run second by second as panels on one axis, with its windows shaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ground.results.record import Counters, Window
from viz.svg.axes import nice_step
from viz.svg.elements import element, label, plot
from viz.svg.job_lanes import Lane, drawn_lanes, lanes_height

_WIDTH, _PANEL, _LOW_PANEL = 1000, 118, 72
_FEW_PANELS = 5  # of more each is lower, so that all are seen at once
_LEFT, _RIGHT, _TOP, _GAP, _FOOT = 62, 76, 40, 26, 38
_CHAR = 8  # px of a label, roughly
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8)  # of the axes; halves of them are round too
_UNOBSERVED = ("warm-up", "baseline")
_JOINED = 0.5  # seconds between two points that still make one line


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of `value` from `begin` to `end`, seconds of the axis."""

    begin: float
    end: float
    value: float


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """name: as the legend says it; empty where a panel has one series alone. points: in order of time"""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class TimePanel:
    """title: what and in which unit; form: of a value in the table"""

    title: str
    form: str
    series: Sequence[TimeSeries]


def panels(
    rates: Sequence[int], slices: Sequence[Window], begun_ns: int | None, writing: bool = False
) -> list[TimePanel]:
    """What is drawn.

    begun_ns: CLOCK_MONOTONIC of second 0, without which counters have no place on the axis; writing: also what the
    device writes
    """
    reported = TimePanel("QPS", ",.0f", [TimeSeries("", [Point(i, i + 1, rate) for i, rate in enumerate(rates)])])
    if begun_ns is None:
        return [reported] if rates else []

    def series(name: str, value: Callable[[Counters, float], float | None]) -> TimeSeries:
        points = []
        for one in slices:
            figure = value(one.counters, one.seconds) if one.seconds > 0 else None
            if figure is not None:
                points.append(Point(second_of(one.start_ns, begun_ns), second_of(one.end_ns, begun_ns), figure))
        return TimeSeries(name, points)

    found = [
        reported if rates else TimePanel("QPS", ",.0f", [series("", _queries)]),
        TimePanel("IOPS", ",.0f", [series("", lambda c, s: c.storage_reads / s)]),
        TimePanel("CPU", ".3f", [series("user", lambda c, s: c.user_ns / 1e9 / s),
                             series("system", lambda c, s: c.system_ns / 1e9 / s)]),
        TimePanel("read latency, us", ",.1f", [series("", lambda c, _: _latency(c))]),
        *([TimePanel("device writes, MiB/s", ",.1f", [series("", lambda c, s: c.storage_write_bytes / 2**20 / s)])]
          if writing else []),
    ]  # fmt: skip
    return [panel for panel in found if any(one.points for one in panel.series)]


def _queries(counters: Counters, seconds: float) -> float | None:
    return None if counters.queries is None else counters.queries / seconds


def _latency(counters: Counters) -> float | None:
    return 1000 * counters.storage_read_ms / counters.storage_reads if counters.storage_reads else None


def second_of(moment_ns: int, begun_ns: int) -> float:
    return (moment_ns - begun_ns) / 1e9


def points_of(drawn: Iterable[TimePanel]) -> Iterable[Point]:
    return (point for panel in drawn for one in panel.series for point in one.points)


def time_plot(
    drawn: Sequence[TimePanel],
    shaded: Sequence[tuple[str, float, float]],
    whole: float,
    axis: str,
    lanes: Sequence[Lane] = (),
) -> Markup:
    """shaded: kind, begin and end of each window; whole: seconds of the axis; axis: what it counts; lanes: of jobs,
    below the panels, their stalls also drawn through all of them"""
    wide = _WIDTH - _LEFT - _RIGHT
    whole = max(whole, 1.0)
    tall = _PANEL if len(drawn) <= _FEW_PANELS else _LOW_PANEL
    ends = _TOP + len(drawn) * (tall + _GAP) - _GAP
    bottom = ends + (_GAP + lanes_height(lanes) if lanes else 0)

    def x(second: float) -> float:
        return _LEFT + wide * max(0.0, min(second, whole)) / whole

    parts = []
    taken = [0.0, 0.0]  # up to where each of the two rows of labels is written
    for kind, begin, end in shaded:
        wide_enough = x(end) - x(begin) >= _CHAR * len(kind)
        row = next((row for row in (0, 1) if x(begin) >= taken[row]), None)
        # Of a baseline window that is too short for its name, the shade says enough.
        if row is not None and (wide_enough or kind not in _UNOBSERVED):
            taken[row] = x(begin) + _CHAR * len(kind)
            parts.append(label(kind, x(begin) + 3, _TOP - 26 + 14 * row))
    for kind, begin, end in shaded:
        shade = kind if kind in _UNOBSERVED else "observed"
        hover = element("title", f"{kind}, {end - begin:.1f} s")
        for index in range(len(drawn)):
            top = _TOP + index * (tall + _GAP)
            width = x(end) - x(begin)
            parts.append(element("rect", hover, class_=f"window {shade}", x=x(begin), y=top, width=width, height=tall))
    for bar in (bar for lane in lanes if lane.kind == "held" for bar in lane.bars):
        width = max(x(bar.end) - x(bar.begin), 0.5)
        title = element("title", bar.words)
        parts.append(
            element("rect", title, class_="job held through", x=x(bar.begin), y=_TOP, width=width, height=ends - _TOP)
        )
    for index, panel in enumerate(drawn):
        parts += drawn_panel(panel, _TOP + index * (tall + _GAP), tall, _WIDTH - _RIGHT, x)
    parts += drawn_lanes(lanes, ends + _GAP, _WIDTH - _RIGHT, x)
    every = max(1, round(nice_step(whole / 10, _STEPS)))
    parts += [label(str(second), x(second), bottom + 16, "tick mid") for second in range(0, int(whole) + 1, every)]
    parts.append(label(axis, _LEFT + wide / 2, bottom + 32, "tick mid"))
    return plot(_WIDTH, bottom + _FOOT, f"by second: {'; '.join(map(_told, drawn))}", *parts)


def _told(panel: TimePanel) -> str:
    parts = []
    for one in panel.series:
        values = [point.value for point in one.points]
        if values:
            name = f"{panel.title} {one.name}".strip()
            parts.append(f"{name} {min(values):{panel.form}} to {max(values):{panel.form}}")
    return ", ".join(parts)


def drawn_panel(
    panel: TimePanel, top_edge: float, tall: float, right_edge: float, x: Callable[[float], float]
) -> list[Markup]:
    """Its lines over a scale from 0. right_edge: where the grid ends, and the names of several series begin"""
    top = nice_step(max((point.value for one in panel.series for point in one.points), default=0) or 1, _STEPS)

    def y(value: float) -> float:
        return top_edge + tall * (1 - value / top)

    drawn = []
    for part in range(3):
        value = top * part / 2
        digits = 0 if top >= 20 else 1 if top >= 2 else 2
        drawn.append(element("line", class_="grid", x1=_LEFT, x2=right_edge, y1=y(value), y2=y(value)))
        drawn.append(label(f"{value:,.{digits}f}", _LEFT - 6, y(value) + 4, "tick end"))
    drawn.append(label(panel.title, 4, top_edge - 9))
    marks = []  # where the names of several series go: at their last points, apart from each other
    for place, one in enumerate(panel.series):
        for run in _runs(one.points):
            middles = [((point.begin + point.end) / 2, point.value) for point in run]
            middles = [(run[0].begin, run[0].value), *middles, (run[-1].end, run[-1].value)]
            points = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in middles)
            drawn.append(element("polyline", class_=f"line s{place}", points=points))
        if one.name and one.points:
            marks.append((y(one.points[-1].value), x(one.points[-1].end), one.name, place))
    below = float("-inf")
    for height, right, name, place in sorted(marks):
        below = max(height, below + 13)
        drawn.append(label(name, right + 5, below + 4, f"label t{place}"))
    return drawn


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """The points in stretches without a hole: nothing is drawn over seconds that nobody counted."""
    found: list[list[Point]] = []
    for point in points:
        if found and point.begin - found[-1][-1].end <= _JOINED:
            found[-1].append(point)
        else:
            found.append([point])
    return found
