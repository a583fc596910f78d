"""Columns of characters: figures, bars and texts in them, cut, aligned and folded."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ground.text.columns import cells, fold_line
from viz.printable import printable

_GAP = 2
_BAR = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"


def aligned(
    rows: Sequence[Sequence[str]], width: int | None = None, indent: str = "  ", left: Container[int] = ()
) -> str:
    """`rows` of equally many cells, the first row being the heads, two blanks between the columns, or one where the
    table then fits. left: columns that are to the left, beside the first

    Where that is wider than `width`, the columns that do not fit go below, beside the first column again: no figure is
    cut and none is left out.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    whole = len(indent) + sum(widths) + len(widths) - 1
    gap = 1 if width is not None and whole <= width < whole + len(widths) - 1 else _GAP
    blocks: list[list[int]] = [[]]
    taken = first = len(indent) + widths[0]
    for column in range(1, len(widths)):
        if width is not None and blocks[-1] and taken + gap + widths[column] > width:
            blocks.append([])
            taken = first
        blocks[-1].append(column)
        taken += gap + widths[column]

    def line(row: Sequence[str], columns: Sequence[int]) -> str:
        cells = (row[i].ljust(widths[i]) if i in left else row[i].rjust(widths[i]) for i in columns)
        return (indent + (" " * gap).join([row[0].ljust(widths[0]), *cells])).rstrip()

    return "\n\n".join("\n".join(line(row, columns) for row in rows) for columns in blocks)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns; what is cut off ends in a tilde."""
    if cells(text) <= width:
        return text
    while cells(text) > width - 1:
        text = text[:-1]
    return text + "~"


def bar(part: float, room: int) -> str:
    """`part` (0 to 1) of `room` columns, to an eighth of a column."""
    whole, eighths = divmod(round(part * room * 8), 8)
    return "\u2588" * whole + _BAR[eighths].rstrip()


def microseconds(ns: float, decimals: int = 2) -> str:
    """us in at most six columns below a second: as many decimals as there is room for, at most `decimals`."""
    us = ns / 1e3
    for places in range(decimals, 0, -1):
        if len(text := f"{us:.{places}f}") <= 6:
            return text
    return f"{us:.0f}"


def folded(text: str, width: int | None) -> str:
    """`text` with the lines that are too wide folded at blanks, under their own indent; None leaves them whole.

    A word that is wider than `width` stays whole on a line of its own: it is a path or a command, and is to be copied.
    A bar at the end of a row goes before the row is folded. Control characters become U+FFFD, for what is printed must
    not steer the terminal.
    """
    lines = map(printable, text.split("\n"))
    if width is None:
        return "\n".join(lines)
    return "\n".join(_fold(line, width) for line in lines)


def _fold(line: str, width: int) -> str:
    if cells(line) <= width:
        return line
    # A bar at the end of a row only repeats its figure: it goes first.
    if (bare := line.rstrip(_BAR)) and cells(bare) <= width:
        return bare
    # Characters are counted; half the room is safe where some are two columns wide.
    room = width if cells(line) <= len(line) else width // 2
    return fold_line(line, room, min(len(line) - len(line.lstrip()) + 2, width // 3))
