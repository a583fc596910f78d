"""Relative tables for other programs (TSV, one cell a line) and for an issue (Markdown)."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.differences import Cell, RelativeTable
from viz.relative_cells import legend, rows_of, with_interval

_HEADER = ("metric", "host", "base", "test", "version", "ratio", "low", "high", "confidence", "mark")


def render_relative_tsv(*tables: RelativeTable) -> str:
    """Every digit of every cell, hosts and metrics below each other; `NA` where there is no interval."""
    lines: list[tuple[str, ...]] = [_HEADER]
    for table in tables:
        for row in table.rows:
            for column, cell in table.cells[row].items():
                lines.append((table.metric, table.host, table.base, row, column, *_figures(cell)))
        for column, cell in table.mean.items():
            lines.append((table.metric, table.host, table.base, f"mean:{table.family}", column, *_figures(cell)))
    return "".join("\t".join(line) + "\n" for line in lines)


def _figures(cell: Cell) -> tuple[str, ...]:
    numbers = ("NA" if value is None else repr(value) for value in (cell.low, cell.high, cell.confidence))
    return (repr(cell.ratio), *numbers, cell.mark or "base")


def markdown_row(cells: Sequence[str]) -> str:
    """Of a table, with what would end a cell escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render_relative_markdown(table: RelativeTable) -> str:
    """With intervals and marks, under a line that says what of and where."""
    head, *rows = rows_of(table, with_interval)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    body = "\n".join(map(markdown_row, lines))
    return f"{table.metric} relative to {table.base}, on {table.host}\n\n{body}\n\n{legend(table)}\n"
