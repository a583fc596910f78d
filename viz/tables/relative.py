"""Ratios to a base, test by test: for people, for other programs (TSV, one cell a line) and for an issue (Markdown)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ground.results.differences import Agreement, Cell, RelativeTable
from viz.table import Section, Table, of_cells

_HEADER = ("metric", "host", "base", "test", "version", "ratio", "low", "high", "confidence", "mark")


def two_digits(cell: Cell) -> str:
    """As the source documents print them."""
    return f"{cell.ratio:.2f}"


def with_interval(cell: Cell) -> str:
    """`0.95 [0.93, 0.97] -`; without repeats there is no interval: `0.95 ?`."""
    interval = "" if cell.low is None or cell.high is None else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.ratio:.2f}{interval} {cell.mark}".rstrip()


def relative_table(
    found: RelativeTable, title: str, text: Callable[[Cell], str], legend: str = ""
) -> Table[Sequence[str]]:
    """A row a test, and the geometric mean where there is one; a cell that was not measured is empty."""
    rows = [
        [test, *(text(cells[column]) if column in cells else "" for column in found.columns)]
        for test, cells in ((test, found.cells[test]) for test in found.rows)
    ]
    if found.mean:
        means = [text(found.mean[column]) if column in found.mean else "" for column in found.columns[1:]]
        rows.append([f"geometric mean of {found.family}", "1.00", *means])
    return of_cells(title, ["test", *found.columns], rows, legend)


def has_intervals(found: RelativeTable) -> bool:
    return any(cell.low is not None for row in found.cells.values() for cell in row.values())


def relative_section(found: RelativeTable) -> Section:
    """Ratios as the source documents print them, then each with its interval and mark; single runs have neither."""
    title = f"{found.metric} relative to {found.base}, on {found.host}"
    if not has_intervals(found):
        return [relative_table(found, title, two_digits, "single runs: what differs may be the host's")]
    return [
        relative_table(found, title, two_digits),
        relative_table(found, "with intervals", with_interval, legend(found)),
    ]


def agreement_lines(found: Mapping[str, Agreement]) -> Iterator[str]:
    """A line a comparison: what the hosts say, and one ratio for all only where they agree."""
    for name, one in found.items():
        pooled = f"; all hosts together {with_interval(one.pooled)}" if one.pooled is not None else ""
        yield f"{name}: {one.sentence}{pooled}"


def legend(table: RelativeTable) -> str:
    """What the marks mean, and how many of them are chance."""
    levels = [cell.confidence for row in table.cells.values() for cell in row.values() if cell.confidence is not None]
    lines = ["- regressed  + improved  = same within delta  ? undecided, or a single run"]
    if levels:
        chance = f"of {table.marked} cells marked - or + at most {table.chance:.1f} are chance, on average"
        lines.append(f"[]: {100 * max(levels):.0f} % interval; {chance}")
    return ". ".join(lines)


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
    head, *rows = relative_table(table, "", with_interval).cells("page")
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    body = "\n".join(map(markdown_row, lines))
    return f"{table.metric} relative to {table.base}, on {table.host}\n\n{body}\n\n{legend(table)}\n"
