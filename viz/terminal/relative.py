"""Relative tables as text: two digits as the source documents print them, then intervals and one mark a cell."""

from __future__ import annotations

from collections.abc import Mapping

from ground.results.differences import Agreement, RelativeTable
from viz.relative_cells import legend, rows_of, two_digits, with_interval
from viz.terminal.columns import aligned, folded


def render_relative(table: RelativeTable, width: int | None = 80) -> str:
    """The table twice: ratios alone, then each with its interval and mark. Single runs have neither: once."""
    parts = [f"{table.metric} relative to {table.base}, on {table.host}\n{aligned(rows_of(table, two_digits), width)}"]
    if any(cell.low is not None for row in table.cells.values() for cell in row.values()):
        parts += [f"with intervals\n{aligned(rows_of(table, with_interval), width)}", legend(table)]
    else:
        parts.append("single runs: what differs may be the host's")
    return folded("\n\n".join(parts), width)


def render_agreement(found: Mapping[str, Agreement], width: int | None = 80) -> str:
    """A line a comparison: what the hosts say, and one ratio for all only where they agree."""
    lines = []
    for name, one in found.items():
        pooled = f"; all hosts together {with_interval(one.pooled)}" if one.pooled is not None else ""
        lines.append(f"{name}: {one.sentence}{pooled}")
    return folded("\n".join(lines), width)
