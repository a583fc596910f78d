"""The events of a group by category: a column an event, a query's where queries were counted."""

from __future__ import annotations

from collections.abc import Callable

from ground.results.event_group import EventGroup, GroupRow
from viz.table import TITLE, Column, Form, Section, Table, fixed, tsv_only

_CYCLES, _INSTRUCTIONS = "cycles", "instructions"


def group_section(group: EventGroup) -> Section:
    """A row a category with weight. Of cycles and instructions also how many a cycle."""
    bare = [_bare(one.event) for one in group.members]
    each = Form(lambda weight: _figure(weight / group.queries if group.queries else weight))

    def weight(place: int) -> Callable[[GroupRow], int]:
        return lambda row: row.weights[place]

    columns = [
        Column[GroupRow]("category", "category", TITLE, lambda row: row.name),
        *(
            Column(one.event, name, each, weight(at))
            for at, (one, name) in enumerate(zip(group.members, bare, strict=True))
        ),
        tsv_only("about", lambda row: row.label),
    ]
    if _INSTRUCTIONS in bare and _CYCLES in bare:
        instructions, cycles = weight(bare.index(_INSTRUCTIONS)), weight(bare.index(_CYCLES))
        columns.append(
            Column("", "instr/cycle", fixed(2), lambda row: instructions(row) / cycles(row) if cycles(row) else None)
        )
    whole = GroupRow("all", "", [sum(row.weights[at] for row in group.rows) for at in range(len(bare))])
    title = "Events of the group, by category"
    return [
        Table("events", title, columns, group.rows, [whole], group_legend(group), where=lambda row: any(row.weights))
    ]


def group_legend(group: EventGroup) -> str:
    of = "per query of the perf window" if group.queries else "of the whole perf window: no queries were counted"
    whose = (
        " Recorded system-wide: a sample's count is of all that ran on its CPU since the one before, others' as well."
        if group.scope == "system"
        else " A sample's count is of its thread since the sample before, and all of it goes to that sample's stack."
    )
    return f"{of}; {_bare(group.members[0].event)} samples, the others are read with each sample.{whose}"


def _bare(event: str) -> str:
    """Without the event's modifiers."""
    return event.partition(":")[0] if event.count(":") == 1 else event


def _figure(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
