"""Plots of latency as figures of a page: histograms of which the reader picks one, and heat maps."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from viz.page.rendering import plot_figure, render, table
from viz.svg.heat_map import Column, heat_map
from viz.svg.histogram import Named, histogram


def histograms(title: str, series: Sequence[Named], what: str, saved: str, legend: str = "") -> Markup:
    """A figure with a button for each histogram, and one for the scale; empty ones have none.

    what: what is counted, in the plural (`reads`); saved: the name of the SVG file
    """
    shown = [
        {"name": one.name, "plots": [(scale, histogram(one, scale, what)) for scale in ("log", "linear")]}
        for one in series
        if one.histogram.buckets
    ]
    return render("histograms.html", title=title, series=shown, saved=saved, legend=legend) if shown else Markup("")


def heat_map_figure(title: str, shown: Sequence[Column], window: str, legend: str) -> Markup:
    """The plot, its legend, and the same by column as a table; empty where nothing ended."""
    if not any(column.latency.count for column in shown):
        return Markup("")
    rows = []
    for column in shown:
        h = column.latency
        cells = [f"{(h.percentile(p) or 0) / 1e3:,.1f}" if h.count else "-" for p in (50, 90, 99)]
        rows.append([f"{column.begin:.2f} \u2013 {column.end:.2f}", f"{h.count:,}", *cells, f"{h.most_ns / 1e3:,.1f}"])
    heads = ["seconds", "reads", "p50, us", "p90, us", "p99, us", "below, us"]
    plot = plot_figure(title, heat_map(shown, window), "heatmap.svg", legend, "heat map of latency over time")
    return plot + render("as_table.html", table=table("Read latency over time", heads, rows))
