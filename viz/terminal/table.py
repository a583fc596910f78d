"""Tables for the terminal."""

from __future__ import annotations

from typing import Any

from ground.text.columns import fold_line
from viz.columns import aligned, cut, folded
from viz.table import Section, Table

# Columns where the width is not known.
_WIDTH = 100
# Of words beside a row, to be read there; and of those that are cut.
_WORDS, _CUT = 30, 16


def section_text(section: Section, width: int | None = None) -> str:
    """Its paragraphs and tables, an empty line around each table; no line is wider than `width`."""
    parts: list[str] = []
    lines: list[str] = []
    for block in section:
        if isinstance(block, str):
            lines.append(block)
        elif isinstance(block, Table) and block.title and block.seen:
            parts += ["\n".join(lines), table_text(block, width)]
            lines = []
    return folded("\n\n".join(part for part in [*parts, "\n".join(lines)] if part), width)


def table_text(table: Table[Any], width: int | None = None) -> str:
    """No wider than `width`: columns that can be spared go first, then columns go below the others. What a row is
    stands beside it, folded, or below the table where there is no room. None: as wide as the figures are."""
    rows, columns, room = table.cells("screen"), table.shown("screen"), width or _WIDTH
    wide = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    words = [at for at, column in enumerate(columns) if column.form.beside]
    kept = [at for at in range(len(columns)) if at not in words]
    cuts = any(columns[at].form.spare for at in words)
    if cuts or 2 * len(kept) + sum(wide[at] for at in kept) > room:
        kept = [at for at in kept if not columns[at].form.spare]
    taken = 2 + sum(2 + wide[at] for at in kept)
    least = _CUT if cuts else _WORDS
    beside = taken + min(least, max((wide[at] for at in words), default=0)) <= room
    if cuts:
        words = words if beside else []
        rows = [[cut(cell, room - taken) if at in words else cell for at, cell in enumerate(row)] for row in rows]
    left = [place for place, at in enumerate(kept) if columns[at].form.left]
    lines = aligned([[row[at] for at in kept] for row in rows], width, left=left).split("\n")
    if words and beside:
        told = (" ".join(row[at] for at in words) for row in rows)
        lines = [
            fold_line(f"{line:<{taken}}{about}".rstrip(), room, taken) for line, about in zip(lines, told, strict=True)
        ]
    elif words:
        indent = 4 + max(wide[0], 8)
        below = (f"  {row[0]:<{indent - 4}}  {row[at]}" for at in words for row in rows[1:] if row[at])
        lines += [fold_line(line, room, indent) for line in below]
    lines += [fold_line(f"  {note}", room, 2) for note in (table.left_out("screen"), table.legend) if note]
    return "\n".join([table.title, *lines])
