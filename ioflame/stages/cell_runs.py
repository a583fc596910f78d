"""The measured runs of an experiment's cells, from their directories, and the columns of the table by their seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ground.results.categories import read_views
from ground.results.cells import CellsRun
from ground.results.run import open_run
from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.cell_draws import CellRuns, MeasuredRun, column_draws, figures_of
from workloads.cells import Cells


def measured_cells(cells: Cells, going: CellsRun) -> dict[str, CellRuns]:
    """By cell, of those that have a run that is done and was measured window by window."""
    found = {}
    for cell in cells.cells:
        done = [run for run in going.record.runs if run.cell == cell.name and run.status == "done"]
        steps: dict[str, list[MeasuredRun]] = {}
        for step, name in ((step, name) for run in done for step, name in run.runs.items()):
            steps.setdefault(step, []).append(_measured(going.directory / name))
        if steps:
            users = next(iter(steps.values()))[0].record.threads
            found[cell.name] = CellRuns(users, steps, [fio for run in done for fio in run.baselines])
    return found


def _measured(directory: Path) -> MeasuredRun:
    run = open_run(directory)
    return MeasuredRun(run.record, read_views(directory), run.series())


@dataclass(frozen=True)
class SecondsOfCells:
    """runs: of each cell; figures: of each cell, by name; columns: by row of the table, those that can be had"""

    runs: Mapping[str, CellRuns]
    figures: Mapping[str, Mapping[str, Draws]]
    columns: Mapping[str, Mapping[str, Draws]]


def seconds_of_cells(cells: Cells, measured: Mapping[str, CellRuns]) -> SecondsOfCells:
    """What the table is worked out of, where the spread of its values is that of the seconds of the runs."""
    figures = {name: figures_of(runs, seed) for seed, (name, runs) in enumerate(measured.items(), start=1)}
    found: dict[str, dict[str, Draws]] = {}
    for row in cells.table_rows():
        if row.cell.name in figures:
            users = measured[row.cell.name].users
            every = {c.name: column_draws(c.at(row.step), figures[row.cell.name], users) for c in cells.columns}
            found[row.name] = {name: draws for name, draws in every.items() if draws is not None}
    return SecondsOfCells(measured, figures, found)
