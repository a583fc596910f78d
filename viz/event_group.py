"""The events of a group by category, as they are shown: a column an event, a query's where queries were counted."""

from __future__ import annotations

from ground.results.event_group import EventGroup

_CYCLES, _INSTRUCTIONS = "cycles", "instructions"


def group_table(group: EventGroup) -> list[list[str]]:
    """Heads, a row a category with weight, and the sum. Of cycles and instructions also how many a cycle."""
    names = [_bare(one.event) for one in group.members]
    per_cycle = [names.index(one) for one in (_INSTRUCTIONS, _CYCLES) if one in names]
    ipc = per_cycle if len(per_cycle) == 2 else None
    rows = [(row.name, row.weights) for row in group.rows if any(row.weights)]
    rows.append(("all", [sum(row.weights[at] for row in group.rows) for at in range(len(names))]))
    heads = [group.view, *names, *(["instr/cycle"] if ipc else [])]
    return [heads, *([name, *_cells(group, weights, ipc)] for name, weights in rows)]


def _cells(group: EventGroup, weights: list[int], ipc: list[int] | None) -> list[str]:
    each = [_figure(weight / group.queries if group.queries else weight) for weight in weights]
    if ipc is None:
        return each
    instructions, cycles = (weights[at] for at in ipc)
    return [*each, f"{instructions / cycles:.2f}" if cycles else "-"]


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
