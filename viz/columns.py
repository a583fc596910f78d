"""Plain columns for tables of figures: the first to the left, the others to the right."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ("aligned",)


def aligned(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """`rows` of equally many cells, the first row being the heads, two blanks between the columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        indent + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
