"""The latency ladder on a page: bar, gap, table, and a histogram of each stage; several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ioflame.ladder import CLASSES, STAGES, Ladder
from viz.axes import us
from viz.histograms import Named, histograms
from viz.ladder_plot import KINDS, LadderRow, gap_words, kind_of, ladder_plot
from viz.markup import figure, hue_class, svg_button, table, text

__all__ = ("ladder_panel", "ladders_compared")

_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def ladder_panel(ladder: Ladder, rx_lat_us: float | None) -> str:
    """rx_lat_us: us per query by the engine's own count in the ladder's window; None where it has none."""
    if not ladder.total.count:
        return (
            '<p class="absent">The ladder has no stages: no query was followed from its start through a read to its '
            f"end. Followed were {ladder.followed:,} of {ladder.queries:,} queries.</p>" + _classes(ladder)
        )
    notes = "".join(f'<p class="legend-note">{text(note)}</p>' for note in ladder.notes)
    plot = _wide(ladder_plot([LadderRow("", ladder, rx_lat_us)]))
    return (
        figure("Latency ladder: a query's average by stage", f"{plot}{_legend()}", _reading(ladder),
               svg_button("ladder.svg"))
        + (f'<p class="finding">{gap_words(ladder)}</p>' if gap_words(ladder) else "")
        + notes
        + _stages(ladder)
        + histograms("Latency of a stage", _series(ladder), "queries", "stage.svg",
                     "The name of a stage in the table or its part of the bar shows its histogram here.")
        + _classes(ladder)
    )  # fmt: skip


def ladders_compared(rows: Sequence[LadderRow | None], names: Sequence[str], compared: bool) -> str:
    """The ladders of several runs on one axis and stage by stage; empty where fewer than two have one.

    rows: of every run, the base first, None where it has none; names: markup of all runs
    """
    found = [row if row is not None and row.ladder.total.count else None for row in rows]
    shown = [row for row in found if row is not None]
    if len(shown) < 2:
        return ""
    ladders = [row.ladder if row is not None else None for row in found]
    heads = ["stage, us"]
    for place, name in enumerate(names):
        heads += [name, *(["\u0394"] if place and compared else [])]

    def line(name: str, value: Callable[[Ladder], float | None]) -> list[str]:
        return [text(name), *_beside([None if one is None else value(one) for one in ladders], compared)]

    seen = [name for name in STAGES if any(row.ladder.stage(name).count for row in shown)]
    cells = [line(name, partial(_mean, name)) for name in seen]
    cells.append(line("the whole query", lambda ladder: ladder.total.mean_ns))
    cells.append(line("io.lat", lambda ladder: ladder.device.await_ns if ladder.device is not None else None))
    return figure("Latency ladders", f"{_wide(ladder_plot(shown))}{_legend()}", "", svg_button("ladders.svg")) + figure(
        "Latency by stage, average", table(heads, cells, "numbers"), "\u0394 in us." if compared else ""
    )


def _mean(stage: str, ladder: Ladder) -> float | None:
    return ladder.stage(stage).mean_ns if ladder.stage(stage).count else None


def _beside(values: Sequence[float | None], compared: bool) -> list[str]:
    cells = []
    base = values[0]
    for place, value in enumerate(values):
        cells.append(us(value))
        if place and compared:
            cells.append("-" if value is None or base is None else f"{(value - base) / 1e3:+,.2f}")
    return cells


def _wide(plot: str) -> str:
    return f'<div class="wide scroll" tabindex="0" role="group" aria-label="latency ladder">{plot}</div>'


def _legend() -> str:
    entries = (
        f'<span><i class="swatch {hue_class(hue)}"></i>{text(name)}: {text(about)}</span>'
        for name, (hue, about) in KINDS.items()
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def _reading(ladder: Ladder) -> str:
    starts = "the read call" if ladder.start == "syscall" else "the call of the query"
    return (
        f"One query in {ladder.sample} followed from {starts} on, for {ladder.seconds:.1f} s; stages are of queries "
        f"with one read that the thread slept for, and add up to them. Of the average, {us(ladder.probe_ns)} us are "
        "the probes' own (programs measured, traps estimated)."
    )


def _stages(ladder: Ladder) -> str:
    total = ladder.total
    rows = []
    for rung in ladder.stages:
        step, hue = STAGES[rung.name], KINDS[kind_of(rung.name)][0]
        share = 100 * rung.sum_ns / total.sum_ns if total.sum_ns else 0.0
        values = [us(rung.mean_ns), *(us(rung.histogram.percentile(p)) for p in _PERCENTILES), us(rung.most_ns)]
        name = (
            f'<button type="button" class="pick" data-stage="{text(rung.name)}">'
            f'<i class="swatch {hue_class(hue)}"></i>{text(rung.name)}</button>'
        )
        rows.append([name, *values, f"{share:.1f}", text(f"{step.start} \u2192 {step.end}: {step.about}")])
    values = [us(total.mean_ns), *(us(total.histogram.percentile(p)) for p in _PERCENTILES), us(total.most_ns)]
    rows.append(["total", *values, "100.0", "the whole query"])
    heads = ["stage, us", "avg", *(f"p{p:g}" for p in _PERCENTILES), "max", "share, %", "from \u2192 to: what happens"]
    note = "Averages add up to the total; percentiles do not."
    return figure("Stages of a query", table(heads, rows, "numbers noted"), note)


def _series(ladder: Ladder) -> list[Named]:
    whole = Named("total", "the whole query", ladder.total.histogram)
    return [
        whole,
        *(Named(r.name, f"{STAGES[r.name].start} \u2192 {STAGES[r.name].end}", r.histogram) for r in ladder.stages),
    ]


def _classes(ladder: Ladder) -> str:
    rows = []
    for name, about in CLASSES.items():
        rung = ladder.of_class(name)
        if rung.count:
            rows.append(
                [text(name), f"{rung.count:,}", us(rung.mean_ns), us(rung.histogram.percentile(99)), text(about)]
            )
    if ladder.incomplete:
        rows.append(["incomplete", f"{ladder.incomplete:,}", "-", "-", "cut off by the window's edge"])
    rows.append(
        ["of all", f"{ladder.queries:,}", "-", "-", f"queries, of {ladder.threads} thread{'s' * (ladder.threads != 1)}"]
    )
    heads = ["followed", "queries", "avg, us", "p99, us", "what they were"]
    return figure("What followed queries turned out to be", table(heads, rows, "numbers noted"))
