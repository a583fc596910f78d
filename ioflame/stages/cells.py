"""The table of an experiment of cells, from its record and its runs, and which expectations passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.results.categories import read_views
from ground.results.cells import CellsRecord, CellsRun, Heading, Judged, Value
from ground.results.run import open_run
from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.cell_draws import CellRuns, MeasuredRun, column_draws, figures_of, spread_of_draws, value_of_draws
from ioflame.analysis.cells import Spread, judge, spread_of, summary_of
from workloads.cells import Cells, Column, Hold

Values = dict[str, dict[str, Value | None]]
# By row of the table, then by column.
Drawn = Mapping[str, Mapping[str, Draws]]


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


def headings_of(cells: Cells) -> list[Heading]:
    return [Heading(column.name, column.about, column.digits) for column in cells.columns]


def values_of(cells: Cells, record: CellsRecord, drawn: Drawn | None = None) -> Values:
    """By row of the table, then by column. drawn: the columns by the seconds of the runs, where these are its spread"""
    if drawn is not None:
        runs = {row.name: len(record.figures(row.cell.name)) for row in cells.table_rows()}
        return {
            row: {c.name: value_of_draws(of[c.name], n) if c.name in of else None for c in cells.columns}
            for row, n in runs.items()
            for of in [drawn.get(row, {})]
        }
    return {
        row.name: {
            column.name: summary_of(_every(column.at(row.step), record.figures(row.cell.name)))
            for column in cells.columns
        }
        for row in cells.table_rows()
    }


def _every(column: Column, runs: Sequence[Mapping[str, float]]) -> list[float]:
    return [value for run in runs if (value := column.value(run)) is not None]


def _spread(column: Column, runs: Sequence[Mapping[str, float]]) -> Spread | None:
    """Of its runs; of a single one, where the column is one figure of it, by that figure's interval."""
    ends = [runs[0].get(f"{column.part[0]}.{end}") for end in ("low", "high")] if len(runs) == 1 else []
    known = [column.times * end for end in ends if end is not None]
    alone = len(known) == 2 and len(column.part) == 1 and not (column.per or column.off) and column.form == "ratio"
    return spread_of(_every(column, runs), (known[0], known[1]) if alone else None)


def judged(cells: Cells, record: CellsRecord, drawn: Drawn | None = None) -> list[tuple[Hold, Judged]]:
    """Each expectation with its outcome."""
    values = values_of(cells, record, drawn)
    return [(hold, _judge(cells, record, values, drawn, hold)) for hold in cells.holds]


def _judge(cells: Cells, record: CellsRecord, values: Values, drawn: Drawn | None, hold: Hold) -> Judged:
    rows = {row.name: row for row in cells.table_rows()}
    left_out = {run.cell for run in record.runs if run.status == "left out"}
    names = hold.cells or [name for name, row in rows.items() if row.cell.name not in left_out]
    if hold.when:
        seen = [run.get(hold.when) for name in names for run in record.figures(rows[name].cell.name)]
        if not seen or any(value != 1 for value in seen):
            return Judged(None, hold.otherwise or f"{hold.when} is not 1")
    if record.num_keys < hold.least_keys:
        return Judged(None, f"with fewer than {hold.least_keys:,} keys the tree has fewer levels")

    def of(column: str) -> dict[str, float | None]:
        found = {name: values[name][column] for name in names}
        return {name: None if value is None else value.median for name, value in found.items()}

    column = next(column for column in cells.columns if column.name == hold.column)
    spreads: dict[str, Spread | None] = {}
    for name in names:
        of_row = None if drawn is None else drawn.get(name, {}).get(column.name)
        if drawn is None:
            spreads[name] = _spread(column.at(rows[name].step), record.figures(rows[name].cell.name))
        else:
            spreads[name] = None if of_row is None else spread_of_draws(of_row)
    return judge(hold.proof, of(hold.column), of(hold.other) if hold.other else {}, hold.low, hold.high, spreads)
