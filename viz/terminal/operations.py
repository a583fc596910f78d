"""The CPU of a target by kind of operation, and a table for each kind that is counted."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.operations import Operation
from viz.printable import printable
from viz.terminal.columns import aligned
from viz.terminal.owner_table import owner_table

_HEAD = "CPU by kind of operation (perf window; the first known frame from the root has the stack)\n"
_NOTE = "\n  us each: share x CPU of the plain windows / how many there were; -: nothing counts them (--count-of)"


def operations_text(operations: Sequence[Operation], width: int = 100, unicode: bool = True) -> str:
    """ "" without any."""
    shown = [one for one in operations if one.share or one.per_second]
    if not shown:
        return ""
    table = [["operation", "% of CPU", "95 %", "cores", "a second", "us each", "95 %", "n"]]
    parts = [_HEAD + aligned([*table, *map(_cells, shown)], width) + _NOTE]
    for one in operations:
        if one.categories is None or not one.categories.total_weight:
            continue
        rows = [row for row in one.categories.rows if row.weight]
        parts.append(
            f"Where the CPU of one {printable(one.name)} goes ({one.categories.view} view of its stacks)\n"
            + owner_table(rows, unit="its CPU", width=width, legend=False, unicode=unicode).rstrip()
        )
    return "\n\n".join(parts)


def _cells(one: Operation) -> list[str]:
    share = us = "-"
    if one.interval is not None:
        share = f"{one.interval.low:.1f}..{one.interval.high:.1f}"
        if one.us is not None and one.share:
            each = one.us / one.share
            us = f"{one.interval.low * each:.2f}..{one.interval.high * each:.2f}"
    return [
        printable(one.name),
        f"{one.share:.2f}",
        share,
        f"{one.cores:.3f}",
        "-" if one.per_second is None else f"{one.per_second:,.0f}",
        "-" if one.us is None else f"{one.us:.2f}",
        us,
        "-" if one.samples is None else f"{one.samples:,}",
    ]
