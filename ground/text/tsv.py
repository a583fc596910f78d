"""Tables as TSV, for spreadsheets and scripts: a line of names, then rows with as many cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Row = Mapping[str, str | int | float | None]


def tsv(tables: Mapping[str, Sequence[Row]]) -> str:
    """Rows by column name; numbers to the last digit, nothing for None.

    Several tables are one: its first column, `table`, says which, its others are the columns of all, and a cell is
    empty in the tables that have no such column.
    """
    columns = list(dict.fromkeys(column for rows in tables.values() for row in rows for column in row))
    several = len(tables) > 1
    lines = [[*(["table"] if several else []), *columns]]
    for name, rows in tables.items():
        lines += [[*([name] if several else []), *(_cell(row.get(column)) for column in columns)] for row in rows]
    return "".join("\t".join(line) + "\n" for line in lines)


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    # A tab or a line feed in a name would end the cell.
    return " ".join(value.split()) if isinstance(value, str) else str(value)
