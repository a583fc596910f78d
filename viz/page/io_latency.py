"""The device's latency on a page: histograms, and over time."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.io_latency import IoLatency
from viz.page.latency_plots import heat_map_figure, histograms
from viz.page.rendering import banner, section_markup
from viz.svg.elements import element
from viz.svg.heat_map import columns
from viz.svg.histogram import Named
from viz.tables.io_latency import io_latency_section

_STAGES = ("total", "queue", "device")
_OWNERS = ("process", "others")


def io_panel(io: IoLatency) -> Markup:
    """Histograms, their table, and the reads over time."""
    series = _series(io)
    legend = (
        "Process: what the engine's process began; others: all other processes, and "
        "what the kernel writes later. Queue: start to driver. Device: from there to the end."
    )
    lost = sum(io.losses.values())
    told = Markup("")
    if lost:
        told = banner(
            "warn",
            f"{lost:,} of the window's events could not be counted: the check iolat losses says which, and what "
            "follows.",
        )
    told += histograms(f"Latency of requests to {io.device.name}", series, "requests", "io-latency.svg", legend)
    told += section_markup(io_latency_section(io))
    for owner, whose in (("process", "the process"), ("others", "others")):
        if owner == "process" or io.row("read", owner).total.count >= 100:
            told += heat_map_figure(
                f"Latency of reads over time, {whose}",
                columns(io, owner),
                f"window iolat, {io.device.name}, {io.seconds:.1f} s",
                "Rows are latencies on a log scale, columns are stretches of the window; a read is in the stretch in "
                "which it ended. Colour by the logarithm of the number. "
                + element("span", "Arrow keys walk the cells while the plot has the focus.", class_="scripted"),
            )
    return told


def _series(io: IoLatency) -> Sequence[Named]:
    found = []
    operations = list(dict.fromkeys(["read", *(row.operation for row in io.rows)]))
    for operation in operations:
        for owner in _OWNERS:
            row = io.row(operation, owner)
            for stage in _STAGES if operation == "read" else ("total",):
                name = f"{operation}, {owner}, {stage}"
                about = {"total": "start to end", "queue": "start to driver", "device": "driver to end"}[stage]
                found.append(Named(name, about, getattr(row, stage)))
    return found
