"""A sweep as a table of rates."""

from __future__ import annotations

from viz.sweep_view import SweepView
from viz.terminal.columns import aligned, folded


def render_sweep(view: SweepView, width: int | None) -> str:
    """Without the sentence, which comes last of all."""
    record = view.record
    threads = f"{record.threads} thread{'s' * (record.threads > 1)}"
    head = f"{record.workload}, {threads}, {record.engine} {record.version}; arrivals {record.arrivals}"
    lines = [f"{head}\n{record.database}", aligned([view.heads, *view.rows], width), *view.notes]
    return folded("\n\n".join(lines), width)
