"""The latency ladder on a page: bar, gap, table, and a histogram of each stage; several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from markupsafe import Markup

from ground.results.ladder import CLASSES, PLACES, STAGES, Ladder, Rung, queries_of
from viz.figures import CannotBeError, beside_base
from viz.page.latency_plots import histograms
from viz.page.rendering import absent, plot_figure, render, table
from viz.svg.axes import us
from viz.svg.histogram import Named
from viz.svg.ladder import KINDS, LadderRow, kind_of, ladder_plot

_PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_KINDS = [(hue, f"{name}: {about}") for name, (hue, about) in KINDS.items()]


def ladder_panel(ladder: Ladder, rx_lat_us: float | None) -> Markup:
    """rx_lat_us: us per query by the engine's own count in the ladder's window; None where it has none."""
    unknown = [rung.name for rung in ladder.stages if rung.name not in STAGES]
    unknown += [part.name for _, found in ladder.with_parts for part in found.parts if part.name not in PLACES]
    if unknown:
        raise CannotBeError(f"stages of a ladder called {', '.join(unknown)}")
    total = ladder.total
    if not total.count:
        why = (
            f"No query slept for one read, so there are no stages: followed were {ladder.followed:,} of "
            f"{ladder.queries:,} {queries_of(ladder.kind)}."
        )
        return absent(why) + _parts(ladder) + _classes(ladder)
    starts = "the read call" if ladder.start == "syscall" else "the call of the query"
    reading = (
        f"One query in {ladder.sample} followed from {starts} on, for {ladder.seconds:.1f} s; stages are of queries "
        "with one read that the thread slept for, and add up to them. Of the average, at least "
        f"{us(ladder.probe_ns)} us are the probes' own, an estimate from parts: programs measured, traps by what one "
        "takes on this host."
    )
    stages = [
        {
            "name": rung.name,
            "hue": KINDS[kind_of(rung.name)][0],
            "figures": _figures(rung, total, "{0.start} \u2192 {0.end}: {0.about}".format(STAGES[rung.name])),
        }
        for rung in ladder.stages
    ]
    heads = ["stage, us", "avg", *(f"p{p:g}" for p in _PERCENTILES), "max", "share, %", "from \u2192 to: what happens"]
    plot = ladder_plot([LadderRow("", ladder, rx_lat_us)])
    title = "A query's average by stage"
    total_row = _figures(total, total, "the whole query")
    words = "The name of a stage in the table or its part of the bar shows its histogram here."
    return (
        plot_figure(title, plot, "ladder.svg", reading, "latency ladder", _KINDS)
        + render("ladder.html", gap=_gap(ladder), notes=ladder.notes, heads=heads, stages=stages, total=total_row)
        + histograms("Latency of a stage", _series(ladder), "queries", "stage.svg", words)
        + _parts(ladder)
        + _classes(ladder)
    )


def _parts(ladder: Ladder) -> Markup:
    """A table for each class whose queries did not read once."""
    tables = Markup("")
    heads = ["part, us", "avg", *(f"p{p:g}" for p in _PERCENTILES), "max", "share, %", "where the thread is"]
    for whole, found in ladder.with_parts:
        n = found.queries
        rows = [[part.name, *_figures(part, whole, PLACES[part.name])] for part in found.parts]
        rows.append(["total", *_figures(whole, whole, "the whole query")])
        words = (
            f"n {n:,}; {found.reads / n:.2f} read calls and {found.requests / n:.2f} requests each, of which "
            f"{found.not_waited / n:.2f} were not waited for. A thread is in one place at any time, so averages add up."
        )
        tables += table(f"Parts of a query ({whole.name})", heads, rows, "numbers noted", legend=words)
    return tables


def _figures(rung: Rung, total: Rung, about: str) -> list[str]:
    share = 100 * rung.sum_ns / total.sum_ns if total.sum_ns else 0.0
    percentiles = [us(rung.histogram.percentile(percent)) for percent in _PERCENTILES]
    return [us(rung.mean_ns), *percentiles, us(rung.most_ns), f"{share:.1f}", about]


def _gap(ladder: Ladder) -> dict[str, str] | None:
    """Of a query's time what neither the block layer nor the device has, and the largest part of it."""
    inside = sum(ladder.stage(name).mean_ns for name in ("queue", "device"))
    gap = ladder.total.mean_ns - inside
    parts = ladder.device_gap()
    if gap <= 0 or not parts:
        return None
    largest, *rest = parts
    counted = ""
    if ladder.device is not None and ladder.device.await_ns is not None:
        others = ladder.others_reads
        whose = f", with {others:,} reads of others in it" if others else ""
        counted = f"io.lat of {ladder.device.name}, by diskstats: {us(ladder.device.await_ns)} us{whose}"
    return {
        "total": us(ladder.total.mean_ns),
        "inside": us(inside),
        "device": counted,
        "rest": us(gap),
        "share": f"{100 * gap / ladder.total.mean_ns:.0f}",
        "largest": largest.name,
        "most": f"{us(largest.mean_ns)} us ({100 * largest.mean_ns / gap:.0f} %)",
        "about": STAGES[largest.name].about,
        "then": ", ".join(f"{rung.name} {us(rung.mean_ns)}" for rung in rest),
    }


def ladders_compared(rows: Sequence[LadderRow | None], names: Sequence[str], compared: bool) -> Markup:
    """The ladders of several runs on one axis and stage by stage; empty where fewer than two have one.

    rows: of every run, the base first, None where it has none; names: of all runs
    """
    found = [row if row is not None and row.ladder.total.count else None for row in rows]
    shown = [row for row in found if row is not None]
    if len(shown) < 2:
        return Markup("")
    ladders = [row.ladder if row is not None else None for row in found]
    heads = ["stage, us"]
    for place, name in enumerate(names):
        heads += [name, *(["\u0394"] if place and compared else [])]

    def line(name: str, value: Callable[[Ladder], float | None]) -> list[str]:
        values = [None if one is None else value(one) for one in ladders]
        return [name, *beside_base(values, us, lambda ns: f"{ns / 1e3:+,.2f}", compared)]

    seen = [name for name in STAGES if any(row.ladder.stage(name).count for row in shown)]
    cells = [line(name, partial(_mean, name)) for name in seen]
    cells.append(line("the whole query", lambda ladder: ladder.total.mean_ns))
    cells.append(line("io.lat", lambda ladder: ladder.device.await_ns if ladder.device is not None else None))
    bars = plot_figure("Latency ladders", ladder_plot(shown), "ladders.svg", "", "latency ladder", _KINDS)
    legend = "\u0394 in us." if compared else ""
    return bars + table("Latency by stage, average", heads, cells, legend=legend)


def _mean(stage: str, ladder: Ladder) -> float | None:
    return ladder.stage(stage).mean_ns if ladder.stage(stage).count else None


def _series(ladder: Ladder) -> list[Named]:
    whole = Named("total", "the whole query", ladder.total.histogram)
    return [
        whole,
        *(Named(r.name, f"{STAGES[r.name].start} \u2192 {STAGES[r.name].end}", r.histogram) for r in ladder.stages),
    ]


def _classes(ladder: Ladder) -> Markup:
    rows = []
    for name, about in CLASSES.items():
        rung = ladder.of_class(name)
        if rung.count:
            rows.append([name, f"{rung.count:,}", us(rung.mean_ns), us(rung.histogram.percentile(99)), about])
    if ladder.incomplete:
        rows.append(["incomplete", f"{ladder.incomplete:,}", "-", "-", "cut off by the window's edge"])
    rows.append(
        ["of all", f"{ladder.queries:,}", "-", "-", f"queries, of {ladder.threads} thread{'s' * (ladder.threads != 1)}"]
    )
    heads = ["followed", "queries", "avg, us", "p99, us", "query type"]
    return table("What followed queries turned out to be", heads, rows, "numbers noted")
