"""`report.html` of a sweep: latency over the rate as one plot, and the runs as a table.

It follows the rules of a run's page: one file, no request.
"""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from ground.results.sweep import PERCENTILES
from ground.system.host import describe_host
from viz.page.document import page
from viz.page.rendering import part, plot_figure, render, table_markup
from viz.svg.sweep import sweep_plot
from viz.tables.sweep import SweepView

_CAPTION = "Latency by the rate at which queries come"
_LEGEND = (
    "From the moment that a query was due to its end, so waiting behind slow queries is in it. A cross at the top is a "
    "rate that was overloaded: queries still waited at the end, so percentiles would depend on the length of the run."
)


def render_sweep_page(view: SweepView) -> str:
    """The page."""
    record = view.record
    sections = [("Latency by rate", "plot", partial(_plot, view)), ("Every run", "runs", partial(_table, view))]
    made = [{"name": name, "place": place, "content": part(make)} for name, place, make in sections]
    threads = f"{record.threads} thread{'s' * (record.threads > 1)}"
    about = (
        f"{record.engine} {record.version}, {record.workload}, {threads}, arrivals {record.arrivals}. "
        f"{record.database}. {describe_host(record.host) if record.host else ''} {record.created}."
    )
    content = render(
        "compare.html", label="sweep", verdict=view.sentence, kind="note", bars=[], notes=view.notes, sections=made,
        about=about,
    )  # fmt: skip
    return page(f"{record.workload} at a rate", content)


def _plot(view: SweepView) -> Markup:
    hues = [(hue, name.replace("_", ".")) for hue, name in enumerate(PERCENTILES)]
    return plot_figure(_CAPTION, sweep_plot(view.record, _CAPTION), "sweep.svg", _LEGEND, _CAPTION, hues)


def _table(view: SweepView) -> Markup:
    command = render("facts.html", items=[("command", view.record.command)])
    return Markup("").join((table_markup(view.table), command))
