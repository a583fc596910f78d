"""SQL over files of a store: what to select from, and values in quotes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

# A row of an imported table is a run of its own, in the file of all of them.
FILE_OF_RUN = "split_part(run, '.', 1)"


def select_from(
    paths: Sequence[Path], twice: Mapping[Path, Collection[str]] | None = None, columns: str = "* EXCLUDE (day)"
) -> str:
    """What to select from; without the day of their directories, which is no column of a table. twice: of StoreFiles"""
    without = {path: twice[path] for path in paths if path in twice} if twice else {}
    parts = [("", [path for path in paths if path not in without])]
    parts += [(f" WHERE {FILE_OF_RUN} NOT IN ({listed(sorted(runs))})", [path]) for path, runs in without.items()]
    read = "SELECT {} FROM read_parquet([{}], hive_partitioning = true){}"
    return f"({' UNION ALL '.join(read.format(columns, listed(some), where) for where, some in parts if some)})"


def listed(values: Sequence[Path] | Sequence[str]) -> str:
    return ", ".join(map(quoted, values))


def quoted(value: Path | str) -> str:
    return "'" + str(value).replace("'", "''") + "'"
