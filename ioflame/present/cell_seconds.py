"""What an experiment whose spread is by seconds has beside its table: writes, fio, differences, categories, checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ground.results.categories import Category
from ground.results.cells import CellOutcome, CellsRun
from ground.results.record import RunRecord
from ground.results.writes import columns
from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.categories import part_of
from ioflame.analysis.cell_draws import CellRuns, MeasuredRun, category_draws, changes_of, movement, pairs_of
from ioflame.stages.cells import SecondsOfCells
from viz.cell_tables import (
    baselines_table,
    changes_table,
    checks_tables,
    profiles_legend,
    shares_table,
    writes_table,
)
from viz.export.benchmark_tsv import render_report_tsv
from viz.table import Table
from workloads.cells import BASELINE, Cells


def tables_of(cells: Cells, going: CellsRun, seconds: SecondsOfCells) -> Iterator[Table[Sequence[str]]]:
    """The tables, those that would be empty left out."""
    # A small database writes less than a tenth of a GB.
    writes = {step: columns(figures, digits=3) for step, figures in _written(cells, going)}
    if known := {step: row for step, row in writes.items() if row is not None}:
        yield writes_table(known)
    groups: dict[int, list[str]] = {}
    for name, runs in seconds.runs.items():
        groups.setdefault(runs.users, []).append(name)
    fio = {users: [one for name in names for one in seconds.runs[name].baselines] for users, names in groups.items()}
    if any(fio.values()):
        yield baselines_table(fio)
    told, drawn = [column for column in cells.columns if column.drifts or column.chart], seconds.columns
    pairs = [
        (a, b, changes_of(told, drawn[a], drawn[b], fio[users]))
        for users, names in groups.items()
        for a, b in pairs_of([name for name in names if name in drawn])
    ]
    if pairs:
        yield changes_table([column.name for column in told], pairs)
    for asked in cells.breakdowns:
        for users, names in groups.items():
            caption = f"Categories, {asked.by} view, {users} user{'s' * (users != 1)}"
            of_step = {name: _of_step(seconds.runs[name], asked.step) for name in names}
            if all(asked.by in run.views for runs in of_step.values() for run in runs):
                cpu = {name: seconds.figures[name].get(f"{asked.step}.{asked.by}") for name in names}
                yield _shares(caption, asked.by, of_step, cpu)
    yield from checks_tables(dict(_records(seconds.runs)))


def _of_step(runs: CellRuns, step: str) -> Sequence[MeasuredRun]:
    return runs.steps.get(step, []) if step != "last" else list(runs.steps.values())[-1]


def _shares(
    caption: str, view: str, runs: Mapping[str, Sequence[MeasuredRun]], cpu: Mapping[str, Draws | None]
) -> Table[Sequence[str]]:
    """A view of several cells. cpu: us per query that it divides up, by cell"""
    drawn = {name: category_draws(of_cell, view) for name, of_cell in runs.items()}
    names = [row.name for row in next(iter(runs.values()))[0].views[view].rows]
    ends = list(drawn.values())
    moves = {name: movement(first, last) for name, first, last in zip(names, ends[0], ends[-1], strict=True)}
    cells = {name: _pooled(of_cell, view, drawn[name], cpu[name]) for name, of_cell in runs.items()}
    records = [run.record for of_cell in runs.values() for run in of_cell]
    return shares_table(caption, view, cells, moves, profiles_legend(records))


def _pooled(runs: Sequence[MeasuredRun], view: str, drawn: Sequence[Draws | None], cpu: Draws | None) -> list[Category]:
    """The view of a cell, the profiles of all its runs pooled by weight."""
    views = [run.views[view] for run in runs]
    total = sum(one.total_weight for one in views)
    found = []
    for i, (row, draws) in enumerate(zip(views[0].rows, drawn, strict=True)):
        weight = sum(one.rows[i].weight for one in views)
        share = 100 * weight / total if total else 0.0
        interval = None if draws is None else draws.interval()
        us = None if cpu is None else part_of(cpu.estimate, share)
        found.append(Category(row.name, row.label, weight, share, None, interval, us))
    return found


def _records(measured: Mapping[str, CellRuns]) -> Iterator[tuple[str, RunRecord]]:
    for name, runs in measured.items():
        for of_step in runs.steps.values():
            for number, run in enumerate(of_step, start=1):
                yield f"{name}, run {number}", run.record


def _written(cells: Cells, going: CellsRun) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of each step of the cells that are run once."""
    done: dict[str, CellOutcome] = {run.cell: run for run in going.record.runs if run.status == "done"}
    for cell in (cell for cell in cells.cells if cell.once and cell.name in done):
        for step in (step for step in cells.steps_of(cell) if step != BASELINE):
            figures = done[cell.name].figures
            yield step, {name.removeprefix(f"{step}."): v for name, v in figures.items() if name.startswith(f"{step}.")}


def report_tsv(cells: Cells, going: CellsRun, measured: Mapping[str, CellRuns]) -> str:
    """The columns of benchmark.sh's report.tsv."""
    return render_report_tsv(going.record, list(_written(cells, going)), dict(_records(measured)))


def database_facts(measured: Mapping[str, CellRuns]) -> list[str]:
    """The database that all cells read, but for its tree, which differs by cell; and whether its build is slow."""
    record = next((record for _, record in _records(measured)), None)
    if record is None:
        return []
    slow = ["assertions on: slower than a release build"] * (record.tools.get("engine_assertions") == "yes")
    return [*filter(None, [(record.database.description or "").partition(";")[0]]), *slow]
