"""A directory or a file into the store, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ground.errors import UsageError
from ground.results.bisect import BisectRun
from ground.results.cells import FORMER, CellsRun
from ground.results.comparison import ComparisonRun
from ground.results.counted import CountRun
from ground.results.files import Files
from ground.results.run import open_run
from ground.results.store.database import RunTables, Store
from ioflame.store.counts import counted_tables
from ioflame.store.imports import Imported, import_file
from ioflame.store.runs import comparison_tables, experiment_tables, run_tables

# Columns of `runs` by settings.
_TOLD = {"workload": "workload", "test": "test", "label": "version", "host": "host"}


@dataclass(frozen=True)
class Added:
    """Names of runs in the store.

    known: that were there already; left_out: in words, what could not be read
    """

    new: list[str]
    known: list[str]
    left_out: list[str]


def add_to_store(store: Store, path: Path, settings: Mapping[str, str] | None = None, form: str = "") -> Added:
    """A run, comparison, experiment, count, search for a commit, or a file; each run of it whole or not at all.

    UsageError where `path` is none of them.
    """
    imported = _tables_of(path, settings or {}, form)
    found = Added([], [], imported.left_out)
    kept = [tables for tables in imported.runs if tables.rows.get("runs")]
    if not kept:
        found.left_out.append(
            f"nothing of {path} was added: it holds no run that was measured to its end, and no figure"
        )
    for tables in kept:
        (found.new if store.add(tables) else found.known).append(tables.run)
    return found


def _tables_of(path: Path, settings: Mapping[str, str], form: str) -> Imported:
    if path.is_file():
        return import_file(path, settings, form)
    if ComparisonRun.is_in(path):
        going = ComparisonRun.open(path)
        beside = counted_tables(going.counted) if going.count() is not None else []
        return Imported([*comparison_tables(going), *beside], [])
    if CountRun.is_in(path):
        return Imported(counted_tables(path), [])
    if BisectRun.is_in(path):
        return Imported(_of_search(BisectRun.open(path)), [])
    if (path / Files.RECORD).is_file():
        return Imported([_as_told(run_tables(open_run(path)), settings)], [])
    if CellsRun.is_in(path) or (path / FORMER).is_file():
        record = CellsRun.open(path).record if CellsRun.is_in(path) else None
        return Imported(experiment_tables(path, record), [])
    raise UsageError(
        f"{path} is no run, comparison, experiment, count or search, and no file",
        means="nothing of it was added",
        mend="ioflame store add STORE runs/latest",
    )


def _as_told(tables: RunTables, settings: Mapping[str, str]) -> RunTables:
    """The given settings replace what a run says of itself, such as the test and version of a service."""
    (row,) = tables.rows["runs"]
    row |= {column: settings[key] for column, key in _TOLD.items() if key in settings}
    for one in tables.rows["hosts"]:
        one["host"] = row["host"]
    row["probability"] = float(settings.get("probability", row["probability"]))
    return tables


def _of_search(going: BisectRun) -> list[RunTables]:
    """Every comparison of it; commits are called by their names, whichever part they had. They are no versions."""
    record = going.record
    labels = {binary: record.names[int(place)][:12] for place, binary in record.binaries.items()}
    directories = [one for one in sorted(going.directory.iterdir()) if ComparisonRun.is_in(one)]
    return [
        tables for one in directories for tables in comparison_tables(ComparisonRun.open(one), labels, source="bisect")
    ]
