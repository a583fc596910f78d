"""Tables that engines print, read by the words of their headers."""

from __future__ import annotations

import re


def last_table(log: str, *columns: str) -> list[dict[str, str]]:
    """The rows of the last table with these columns, by its header; it ends at an empty line."""
    found: list[dict[str, str]] = []
    header: list[str] = []
    for line in log.splitlines():
        # A size is one cell: `412.55 MB`.
        cells = re.sub(r"(\d) ([KMGT]B)\b", r"\1\2", line).split()
        if set(columns) <= set(cells):
            header, found = cells, []
        elif not cells:
            header = []
        elif header and not line.startswith("--"):
            row = dict(zip(header, cells, strict=False))
            found += [row] if set(columns) <= row.keys() else []
    return found
