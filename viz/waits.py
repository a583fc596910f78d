"""Where a query's time goes besides the CPU: the section of a page that the other observers fill.

Each part stands where the run has its file; those that are missing are named together, with the command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from viz.io_panel import io_panel, latency_table
from viz.ladder_panel import ladder_panel
from viz.lock_panel import lock_panel
from viz.markup import part, text
from viz.observed import Observed
from viz.off_panel import off_panel, run_queue_panel, wall_clock_panel

__all__ = ("waits",)


def waits(observed: Observed, metrics: Mapping[str, float]) -> str:
    """metrics: of the run's plain windows."""
    parts = [part(lambda: latency_table(metrics, observed.ladder, observed.rx_lat_us, observed.io))]
    missing = []
    for name, collector, panel in _PANELS:
        content = part(partial(panel, observed))
        if content:
            parts.append(f'<h3>{text(name)}</h3>\n<div class="panel">{content}</div>')
        else:
            missing.append((name, collector))
    return "".join(parts) + _missing(missing)


def _off(observed: Observed) -> str:
    states = off_panel(observed.off) if observed.off is not None else ""
    return states + (wall_clock_panel(observed.clock) if observed.clock is not None else "")


# Name; the collector of a profile that brings it; and the part itself, "" without its file.
_PANELS: tuple[tuple[str, str, Callable[[Observed], str]], ...] = (
    ("Latency ladder", "ladder", lambda o: "" if o.ladder is None else ladder_panel(o.ladder, o.rx_lat_us)),
    ("IO latency", "iolat", lambda o: "" if o.io is None else io_panel(o.io)),
    ("Off the CPU", "offcpu", _off),
    ("Run queue", "runqlat", lambda o: "" if o.queue is None else run_queue_panel(o.queue)),
    ("Locks", "pmp", lambda o: "" if o.locks is None else lock_panel(o.locks, o.pmp)),
)


def _missing(missing: Sequence[tuple[str, str]]) -> str:
    if not missing:
        return ""
    names = ", ".join(name for name, _ in missing)
    words = " ".join(["perf", *(collector for _, collector in missing)])
    return (
        f'<p class="absent">Not shown: {text(names)}. <code>ioflame profile --collect &quot;{text(words)}&quot;</code> '
        "measures them, each in a window of its own.</p>"
    )
