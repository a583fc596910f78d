"""Where a query's time goes besides the CPU: the section of a page that the other observers fill.

Each part stands where the run has its file; those that are missing are named together, with the command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from markupsafe import Markup

from viz.page.io_latency import io_panel, latency_table
from viz.page.ladder import ladder_panel
from viz.page.locks import lock_panel
from viz.page.off_cpu import off_panel, run_queue_panel, wall_clock_panel
from viz.page.rendering import part, render
from viz.page.run_view import Observed

__all__ = ("waits",)


def waits(observed: Observed, metrics: Mapping[str, float]) -> Markup:
    """metrics: of the run's plain windows."""
    first = part(lambda: latency_table(metrics, observed.ladder, observed.rx_lat_us, observed.io))
    made = [(name, collector, part(partial(panel, observed))) for name, collector, panel in _PANELS]
    shown = [(name, content) for name, _, content in made if content]
    missing = [(name, collector) for name, collector, content in made if not content]
    return render("waits.html", first=first, panels=shown, missing=missing)


def _off(observed: Observed) -> Markup:
    states = off_panel(observed.off) if observed.off is not None else Markup("")
    return states + (wall_clock_panel(observed.clock) if observed.clock is not None else Markup(""))


# Name; the collector of a profile that brings it; and the part itself, empty without its file.
_PANELS: tuple[tuple[str, str, Callable[[Observed], Markup]], ...] = (
    ("Latency ladder", "ladder", lambda o: Markup("") if o.ladder is None else ladder_panel(o.ladder, o.rx_lat_us)),
    ("IO latency", "iolat", lambda o: Markup("") if o.io is None else io_panel(o.io)),
    ("Off the CPU", "offcpu", _off),
    ("Run queue", "runqlat", lambda o: Markup("") if o.queue is None else run_queue_panel(o.queue)),
    ("Locks", "pmp", lambda o: Markup("") if o.locks is None else lock_panel(o.locks, o.pmp)),
)
