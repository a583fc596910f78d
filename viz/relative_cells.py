"""The rows of a relative table as text, for the terminal and for issues."""

from __future__ import annotations

from collections.abc import Callable

from ground.results.differences import Cell, RelativeTable


def two_digits(cell: Cell) -> str:
    """As the source documents print them."""
    return f"{cell.ratio:.2f}"


def with_interval(cell: Cell) -> str:
    """`0.95 [0.93, 0.97] -`; without repeats there is no interval: `0.95 ?`."""
    interval = "" if cell.low is None or cell.high is None else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.ratio:.2f}{interval} {cell.mark}".rstrip()


def rows_of(table: RelativeTable, text: Callable[[Cell], str]) -> list[list[str]]:
    """The head, a row a test, and the geometric mean where there is one; a cell that was not measured is empty."""
    rows = [["", *table.columns]]
    for row in table.rows:
        cells = table.cells[row]
        rows.append([row, *(text(cells[column]) if column in cells else "" for column in table.columns)])
    if table.mean:
        means = [text(table.mean[column]) if column in table.mean else "" for column in table.columns[1:]]
        rows.append([f"geometric mean of {table.family}", "1.00", *means])
    return rows


def legend(table: RelativeTable) -> str:
    """What the marks mean, and how many of them are chance."""
    levels = [cell.confidence for row in table.cells.values() for cell in row.values() if cell.confidence is not None]
    lines = ["- regressed  + improved  = same within delta  ? undecided, or a single run"]
    if levels:
        chance = f"of {table.marked} cells marked - or + at most {table.chance:.1f} are chance, on average"
        lines.append(f"[]: {100 * max(levels):.0f} % interval; {chance}")
    return "\n".join(lines)
