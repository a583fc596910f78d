"""What operations take in instructions: a table over all arms, and tables of an operation with its categories."""

from __future__ import annotations

from collections.abc import Collection

from viz.counted_view import CountView, OperationView, figure
from viz.terminal.columns import aligned, folded


def render_counts(view: CountView, width: int | None, whole: Collection[str] = ()) -> str:
    """Instructions of each operation by arm, and each arm against the base. whole: operations with all their blocks"""
    rows = [["per operation", *view.arms]]
    for one in view.operations:
        name = one.name if one.per == "operation" else f"{one.name} (per {one.per})"
        rows.append([name, *map(figure, one.instructions)])
    parts = [f"{view.title}\n{aligned(rows, width)}"]
    if len(view.arms) > 1:
        told = [["", *view.arms[1:]], *([one.name, *one.verdicts] for one in view.operations)]
        parts.append(f"Against {view.arms[0]}\n{aligned(told, width)}")
    parts += [*view.notes, view.unseen]
    parts += [_operation(one, view, width) for one in view.operations if one.name in whole]
    return folded("\n\n".join(parts), width)


def _operation(one: OperationView, view: CountView, width: int | None) -> str:
    """A table of each block, of two arms with the change."""
    lines = [f"{one.name}: {one.about}; per {one.per}"]
    lines += [f"{arm}: not counted; {why}" for arm, why in one.lacks.items()]
    tables = [aligned(table, width) for block in one.blocks if (table := view.table(block))]
    return "\n".join(lines) + "\n" + "\n\n".join(tables)
