"""The time line of a run, second by second: QPS, IOPS, CPU and the device's read latency, with the windows shaded.

QPS comes from the engine's report, the rest from the counters of `series.json`, which has no warm-up in it. Panels
share one axis: the seconds of the engine's report.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.jobs import RunJobs
from ground.results.record import Window
from ground.text.titles import title_of
from viz.page.jobs import job_lanes, tree_panels
from viz.page.rendering import absent, plot_figure, render, table
from viz.svg.timeline import Point, TimePanel, TimeSeries, panels, points_of, second_of, time_plot


def timeline(
    rates: Sequence[int],
    windows: Sequence[Window],
    slices: Sequence[Window],
    report_ns: int | None,
    jobs: RunJobs | None = None,
    writes: Sequence[int] = (),
) -> Markup:
    """The plot, the same figures as a table, and what has to be said about both.

    rates: queries of each second of the engine's report; slices: of `Run.series`; report_ns: the CLOCK_MONOTONIC
    moment of the report's second 0, None where the run did not record it; jobs: in the background;
    writes: of each second, of a writer beside the queries
    """
    if not rates and not slices:
        return absent("No time line: neither the engine's report by second nor counters are in this run.")
    begun, notes, axis = report_ns, [], "seconds of the engine's report"
    if begun is None and slices:
        why = "does not say when it began" if rates else "is not in this run"
        notes.append(f"The engine's report {why}: QPS is from the windows' own counts.")
        rates, begun = [], (windows or slices)[0].start_ns
        axis = "seconds since the first window began"
    elif begun is None and windows:
        notes.append("The windows are not drawn: the engine's report does not say when it began.")
    if not slices:
        notes.append("IOPS, CPU and read latency are not shown: this run kept no counters by second.")
    drawn = panels(rates, slices, begun, jobs is not None)
    shaded = [] if begun is None else [_span(window, begun) for window in windows]
    whole = max([float(len(rates)), *(end for _, _, end in shaded), *(p.end for p in points_of(drawn))])
    if rates and writes:
        points = [Point(second, second + 1, rate) for second, rate in enumerate(writes)]
        drawn.insert(1, TimePanel("writes/s", ",.0f", [TimeSeries("", points)]))
    drawn += tree_panels(jobs, begun, whole)
    lanes = job_lanes(jobs, begun, whole)
    note = (
        "CPU in CPUs: seconds of CPU per second, of the process alone. Read latency: the time the device held reads, "
        "by the number of reads (diskstats), whoever sent them. Counters are not kept for the warm-up. "
    )
    if shaded:
        note += "Blue: baseline windows, with nothing attached; orange: windows of observers. "
    if lanes:
        note += (
            "Bars: flushes and compactions by output level; red, through all panels: writes stopped or slowed down. "
        )
    legend = note + " ".join(notes)
    figure = plot_figure("Second by second", time_plot(drawn, shaded, whole, axis, lanes), "timeline.svg", legend)
    return figure + _table(drawn, shaded)


def _span(window: Window, begun_ns: int) -> tuple[str, float, float]:
    return title_of(window.kind), second_of(window.start_ns, begun_ns), second_of(window.end_ns, begun_ns)


def _table(drawn: Sequence[TimePanel], shaded: Sequence[tuple[str, float, float]]) -> Markup:
    """One row for each second of the axis: the mean of what covers its middle; `-` where nothing does."""
    columns = [(panel, one) for panel in drawn for one in panel.series]
    last = max((point.end for point in points_of(drawn)), default=0.0)
    rows = []
    for second in range(int(last) + 1):
        middle = second + 0.5
        cells = [_cell(one.points, middle, panel.form) for panel, one in columns]
        if any(cell != "-" for cell in cells):
            kind = next((kind for kind, begin, end in shaded if begin <= middle < end), "-")
            rows.append([str(second), kind, *cells])
    heads = ["second", "window", *(f"{panel.title} {one.name}".strip() for panel, one in columns)]
    return render("as_table.html", table=table("By second", heads, rows))


def _cell(points: Sequence[Point], middle: float, form: str) -> str:
    found = next((point for point in points if point.begin <= middle < point.end), None)
    return "-" if found is None else f"{found.value:{form}}"
