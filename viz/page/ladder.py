"""The latency ladder on a page: bar, gap, table, and a histogram of each stage; several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from markupsafe import Markup

from ground.results.ladder import PLACES, STAGES, Ladder
from ground.text.titles import title_of
from viz.figures import CannotBeError, beside_base
from viz.flame.palette import hue_class
from viz.page.latency_plots import histograms
from viz.page.rendering import plot_figure, render, section_markup, table, table_markup
from viz.svg.axes import us
from viz.svg.elements import element
from viz.svg.histogram import Named
from viz.svg.ladder import KINDS, LadderRow, kind_of, ladder_plot
from viz.table import Table
from viz.tables.ladder import inside_ns, ladder_section, stages_table

_KINDS = [(hue, f"{name}: {about}") for name, (hue, about) in KINDS.items()]


def ladder_panel(ladder: Ladder, rx_lat_us: float | None) -> Markup:
    """rx_lat_us: us per query by the engine's own count in the ladder's window; None where it has none."""
    unknown = [rung.name for rung in ladder.stages if rung.name not in STAGES]
    unknown += [part.name for _, found in ladder.with_parts for part in found.parts if part.name not in PLACES]
    if unknown:
        raise CannotBeError(f"stages of a ladder called {', '.join(unknown)}")
    section = ladder_section(ladder, rx_lat_us)
    if not ladder.total.count:
        return section_markup(section)
    starts = "the read call" if ladder.start == "syscall" else "the call of the query"
    reading = (
        f"One query in {ladder.sample} followed from {starts} on, for {ladder.seconds:.1f} s; stages are of queries "
        "with one read that the thread slept for, and add up to them. Of the average, at least "
        f"{us(ladder.probe_ns)} us are the probes' own, an estimate from parts: programs measured, traps by what one "
        "takes on this host."
    )
    plot = ladder_plot([LadderRow("", ladder, rx_lat_us)])
    title = "A query's average by stage"
    words = "The name of a stage in the table or its part of the bar shows its histogram here."
    stages = stages_table(ladder)
    return (
        plot_figure(title, plot, "ladder.svg", reading, "latency ladder", _KINDS)
        + render("ladder.html", gap=_gap(ladder))
        + table_markup(stages, _pick)
        + histograms("Latency of a stage", _series(ladder), "queries", "stage.svg", words)
        + section_markup([block for block in section if not (isinstance(block, Table) and block.name == stages.name)])
    )


def _pick(title: str) -> str:
    """The title of a stage: a button that shows its histogram, of its colour."""
    stage = next((name for name in STAGES if title_of(name) == title), None)
    if stage is None:
        return title
    swatch = element("i", class_=f"swatch {hue_class(KINDS[kind_of(stage)][0])}")
    return element("button", swatch, title, type="button", class_="pick", data_stage=title)


def _gap(ladder: Ladder) -> dict[str, str] | None:
    """Of a query's time what neither the block layer nor the device has, and the largest part of it."""
    inside = inside_ns(ladder)
    gap = ladder.total.mean_ns - inside
    parts = ladder.device_gap()
    if gap <= 0 or not parts:
        return None
    largest, *rest = parts
    counted = ""
    if ladder.device is not None and ladder.device.await_ns is not None:
        others = ladder.others_reads
        whose = f", with {others:,} reads of others in it" if others else ""
        counted = f"disk latency of {ladder.device.name}, by diskstats: {us(ladder.device.await_ns)} us{whose}"
    return {
        "total": us(ladder.total.mean_ns),
        "inside": us(inside),
        "device": counted,
        "rest": us(gap),
        "share": f"{100 * gap / ladder.total.mean_ns:.0f}",
        "largest": title_of(largest.name),
        "most": f"{us(largest.mean_ns)} us ({100 * largest.mean_ns / gap:.0f} %)",
        "about": STAGES[largest.name].about,
        "then": ", ".join(f"{title_of(rung.name)} {us(rung.mean_ns)}" for rung in rest),
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
        return [title_of(name), *beside_base(values, us, lambda ns: f"{ns / 1e3:+,.2f}", compared)]

    seen = [name for name in STAGES if any(row.ladder.stage(name).count for row in shown)]
    cells = [line(name, partial(_mean, name)) for name in seen]
    cells.append(line("the whole query", lambda ladder: ladder.total.mean_ns))
    cells.append(line("disk latency", lambda ladder: ladder.device.await_ns if ladder.device is not None else None))
    bars = plot_figure("Latency ladders", ladder_plot(shown), "ladders.svg", "", "latency ladder", _KINDS)
    legend = "\u0394 in us." if compared else ""
    return bars + table("Latency by stage, average", heads, cells, legend=legend)


def _mean(stage: str, ladder: Ladder) -> float | None:
    return ladder.stage(stage).mean_ns if ladder.stage(stage).count else None


def _series(ladder: Ladder) -> list[Named]:
    whole = Named("total", "the whole query", ladder.total.histogram)
    return [
        whole,
        *(
            Named(title_of(r.name), f"{STAGES[r.name].start} \u2192 {STAGES[r.name].end}", r.histogram)
            for r in ladder.stages
        ),
    ]
