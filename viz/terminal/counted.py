"""What operations take in instructions: a table over all arms, and one of each operation with its categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.results.counted import CountRecord
from viz.terminal.columns import aligned, folded

__all__ = ("NOT_COUNTED", "Block", "render_counts", "render_operation")

NOT_COUNTED = (
    "Not counted: the kernel, caches, real branch prediction, the width of vector instructions, waiting, contention."
)
_NONE = "-"
# Arms whose difference has a column.
_TWO = 2


@dataclass(frozen=True)
class Block:
    """A table: rows by label, of each arm's figure, None where it has none."""

    title: str
    rows: Mapping[str, Sequence[float | None]]


def render_counts(
    record: CountRecord,
    medians: Mapping[str, Mapping[str, float]],
    verdicts: Mapping[str, Mapping[str, str]],
    width: int | None,
) -> str:
    """Instructions of each operation by arm; below, each arm against the base.

    medians:  by operation and arm, instructions; those not counted are left out
    verdicts: by operation and arm but the base, in words
    """
    names = [arm.name for arm in record.arms]
    rows = [["per operation", *names]]
    for operation, found in record.operations.items():
        cells = [_figure(medians[operation].get(name)) for name in names]
        rows.append([operation if found.per == "operation" else f"{operation} (per {found.per})", *cells])
    parts = [f"Instructions, counted by callgrind (valgrind {record.depends_on['valgrind']})\n{aligned(rows, width)}"]
    if len(names) > 1:
        told = [["", *names[1:]], *([op, *(found[name] for name in names[1:])] for op, found in verdicts.items())]
        parts.append(f"Against {names[0]}\n{aligned(told, width)}")
    parts.append(NOT_COUNTED)
    return folded("\n\n".join(parts), width)


def render_operation(record: CountRecord, operation: str, blocks: Sequence[Block], width: int | None) -> str:
    """One operation: a table of each block, of two arms with the change; rows without counts are left out."""
    found, names = record.operations[operation], [arm.name for arm in record.arms]
    parts = [f"{operation}: {found.about}; per {found.per}"]
    parts += [f"{name}: not counted; {one.lacks}" for name, one in found.arms.items() if one.lacks]
    for block in blocks:
        heads = [block.title, *names, *(["change"] if len(names) == _TWO else [])]
        rows = [[label, *map(_figure, cells), *_change(cells)] for label, cells in block.rows.items() if any(cells)]
        if rows:
            parts.append(aligned([heads, *rows], width))
    return folded("\n".join(parts[:1]) + "\n" + "\n\n".join(parts[1:]), width)


def _change(cells: Sequence[float | None]) -> list[str]:
    if len(cells) != _TWO:
        return []
    before, after = cells
    if before is None or after is None or before == after:
        return [""]
    return [f"{'-' if after < before else '+'}{_figure(abs(after - before))}"]


def _figure(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
