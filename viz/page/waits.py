"""Where a query's time goes besides the CPU: the section of a page that the instruments beside perf fill.

Each part is shown where the run has its file; missing parts are named together, with the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from markupsafe import Markup

from ground.results.files import Files
from ground.results.io_latency import IoLatency
from ground.results.ladder import Ladder
from viz.page.rendering import part, render, section_markup
from viz.page.run_view import Observed, Panel
from viz.tables.latency import every_latency


def waits(observed: Observed, metrics: Mapping[str, float], writing: bool = True) -> Markup:
    """metrics: of the run's plain windows; writing: the run writes"""
    ladder, io = observed.of(Files.LADDER, Ladder), observed.of(Files.IO_LATENCY, IoLatency)
    first = part(lambda: section_markup([every_latency(metrics, ladder, observed.rx_lat_us, io)]))
    made = [(panel, _made(panel, observed)) for panel in sorted(observed.panels, key=lambda panel: panel.place)]
    shown = [(panel.title, content) for panel, content in made if content]
    missing = [
        (panel.title, panel.collector) for panel, content in made if not content and (writing or not panel.of_writes)
    ]
    return render("waits.html", first=first, panels=shown, missing=missing)


def _made(panel: Panel, observed: Observed) -> Markup:
    there = any(file in observed.results for file in panel.files)
    return part(partial(panel.make, observed)) if there else Markup("")
