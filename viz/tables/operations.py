"""The CPU of a target by kind of operation, and a table for each kind that is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.categories import Operation
from viz.table import ABOUT, COUNT, PERCENT_2, WORDS, Block, Column, Section, Table, fixed, tsv_only
from viz.tables.categories import categories_table


def operations_section(operations: Sequence[Operation]) -> Section:
    columns = [
        Column[Operation]("operation", "operation", WORDS, lambda one: one.name),
        Column("share_percent", "% of CPU", PERCENT_2, lambda one: one.share),
        tsv_only("share_low_percent", lambda one: one.interval.low if one.interval else None),
        tsv_only("share_high_percent", lambda one: one.interval.high if one.interval else None),
        Column("", "95 %", fixed(1), lambda one: _ends(one, 1.0, 1)),
        tsv_only("samples"),
        Column("cores", "cores", fixed(3), lambda one: one.cores),
        Column("per_second", "a second", COUNT, lambda one: one.per_second),
        Column("us", "us each", fixed(2), lambda one: one.us),
        Column(
            "",
            "95 %",
            fixed(2),
            lambda one: _ends(one, one.us / one.share if one.us is not None and one.share else None, 2),
        ),
        Column("", "n", COUNT, lambda one: one.samples),
        Column("about", "what it is", ABOUT, lambda one: one.label, on="page"),
    ]
    legend = (
        "The first known frame from the root has the stack. us each: share x CPU of the baseline windows / how many "
        "there were; -: nothing counts them (--count-of)."
    )
    table = Table("operations", "CPU by kind of operation (perf window)", columns, operations, legend=legend,
                  where=lambda one: bool(one.share or one.per_second))  # fmt: skip
    return [table, *_of_kinds(operations)]


def _ends(one: Operation, scale: float | None, digits: int) -> str | None:
    if one.interval is None or scale is None:
        return None
    return f"{one.interval.low * scale:.{digits}f}..{one.interval.high * scale:.{digits}f}"


def _of_kinds(operations: Sequence[Operation]) -> Iterator[Block]:
    """Where the CPU of each kind goes that is counted."""
    for one in operations:
        if one.categories is not None:
            weighs, view = one.categories.total_weight, one.categories.view
            title = f"Where the CPU of one {one.name} goes ({view} view of its stacks)" if weighs else ""
            yield categories_table(one.categories, "its CPU", title, f"operations_{one.name}", about=None)
