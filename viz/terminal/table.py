"""Tables for the terminal."""

from __future__ import annotations

from typing import Any

from ground.text.columns import fold_line
from viz.table import Section, Table
from viz.terminal.columns import aligned

# Columns where the width is not known.
_WIDTH = 100


def section_text(section: Section, width: int | None = None) -> str:
    """Its paragraphs and tables, an empty line around each table."""
    parts: list[str] = []
    lines: list[str] = []
    for block in section:
        if isinstance(block, str):
            lines.append(block)
        elif isinstance(block, Table) and block.title and block.seen:
            parts += ["\n".join(lines), table_text(block, width)]
            lines = []
    return "\n\n".join(part for part in [*parts, "\n".join(lines)] if part)


def table_text(table: Table[Any], width: int | None = None) -> str:
    """No wider than `width`: columns that can be spared go first, long words below the table, then columns below the
    others. None: as wide as it is."""
    rows, columns = table.cells("screen"), table.shown("screen")
    kept = list(range(len(columns)))
    wide = [max(map(len, cells)) for cells in zip(*rows, strict=True)]

    def too_wide() -> bool:
        return sum(wide[at] + 2 for at in kept) > (width or _WIDTH)

    if too_wide():
        kept = [at for at in kept if not columns[at].form.spare]
    below = [at for at in kept if columns[at].form.beside] if too_wide() else []
    kept = [at for at in kept if at not in below]
    left = [place for place, at in enumerate(kept) if columns[at].form.left]
    lines = [table.title, aligned([[row[at] for at in kept] for row in rows], width, left=left)]
    first = max(wide[0], 8)
    lines += [f"  {row[0]:<{first}}  {row[at]}" for at in below for row in rows[1:] if row[at]]
    notes = [f"  {words}" for words in (table.left_out("screen"), table.legend) if words]
    return "\n".join([*lines, *(fold_line(line, width or _WIDTH, 2) for line in notes)])
