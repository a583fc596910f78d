"""What an experiment found, from what lies in its directory: `experiment.html`, `summary.txt` and tables with tabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ground.results.cells import CellOutcome, CellsRun, Heading, Judged
from ground.results.checks import Verdict
from ground.results.efficiency import Efficiency, EfficiencyRow, MeasuredStep
from ground.results.experiment import ExperimentRun
from ground.results.files import Files
from ground.results.metrics import LEGEND
from ground.system.atomic_files import write_whole
from ground.system.host import describe_host
from ioflame.present.cell_builds import breakdowns_of, compared_builds
from ioflame.stages.cell_table import headings_of, judged, values_of
from viz.experiment_view import ExperimentView, MadeRun
from viz.export.relative_tables import render_relative_tsv
from viz.page.document import write_page
from viz.page.experiment import render_experiment
from viz.terminal.cells import cells_tsv, facts_of, render_cells
from viz.terminal.columns import aligned
from viz.terminal.relative import render_relative
from workloads.cells import Cells

__all__ = ("cells_text", "cells_view", "efficiency_view", "write_experiment_page")

_QUARTERS = "the quarters of its runs, of which there are four or more."
_BOOTSTRAP = "95 % interval, by bootstrap over the repeats and the seconds of their plain windows."
# Of the IO-efficiency experiment: figures by column with their digits, and those with a chart.
_FIGURES = {"qps": 0, "iops": 0, "rx.lat": 2, "io.lat": 2, "cpu/query": 3, "cpuPer": 3, "io.eff": 3, "cpu.inc": 3}
_CHARTED = ("iops", "cpu/query", "io.eff", "cpu.inc")
_OWN_LEGEND = {
    "cpu/query": "CPU, us per query",
    "cpuPer": "CPU, us per storage read",
    "io.eff": "iops / fio's iops with as many users",
    "cpu.inc": "CPU us per read beyond fio's",
}


def write_experiment_page(view: ExperimentView, directory: Path) -> Path:
    """Writes the page into the experiment's directory; its path."""
    out = directory / Files.EXPERIMENT
    write_page(render_experiment(view), out)
    return out


# ---- cells ---------------------------------------------------------------------------------------------------------
def cells_view(cells: Cells, going: CellsRun) -> ExperimentView:
    """What the page of an experiment of cells shows."""
    record, compared = going.record, compared_builds(cells, going)
    looked_at = {column for hold in cells.holds for column in (hold.column, hold.other)}
    failed = [f"{run.cell}, run {run.turn}: {run.why}" for run in record.runs if run.status == "failed"]
    return ExperimentView(
        title=record.name,
        about=cells.about,
        facts=facts_of(record),
        headings=headings_of(cells),
        values=values_of(cells, record),
        judged=[*((hold.what, one) for hold, one in judged(cells, record)), *compared.agrees],
        published={row.name: row.published for row in cells.table_rows()},
        spread=_QUARTERS,
        charted=[column.name for column in cells.columns if column.name in looked_at or not cells.holds],
        relative=compared.tables,
        breakdowns=breakdowns_of(cells, going),
        runs=list(_made(cells, going)),
        builds=compared.facts,
        amiss=[*failed, *(f"{run.cell}, run {run.turn}: {words}" for run in record.runs for words in run.amiss)],
        notes=compared.barred,
        cannot=cells.cannot,
    )


def cells_text(view: ExperimentView, going: CellsRun, width: int | None) -> str:
    """What the page shows as text, also as files in the experiment's directory."""

    def text(columns: int | None) -> str:
        further = [render_relative(table, columns) for _, table in view.relative]
        further += [
            f"{one.caption}\n{aligned([one.heads, *one.rows], columns)}\n  {one.legend}" for one in view.breakdowns
        ]
        return render_cells(going.record, view, [*view.notes, *further], columns)

    directory = going.directory
    write_whole(directory / Files.SUMMARY, text(None).encode("utf-8", "replace"))
    write_whole(directory / "summary.tsv", cells_tsv(view.headings, view.values).encode("utf-8", "replace"))
    if view.relative:
        tables = render_relative_tsv(*(table for _, table in view.relative))
        write_whole(directory / "relative.tsv", tables.encode("utf-8", "replace"))
    return text(width)


def _made(cells: Cells, going: CellsRun) -> Iterator[MadeRun]:
    steps = {cell.name: cells.steps_of(cell) for cell in cells.cells}
    for run in going.record.runs:
        if run.status != "todo":
            outcome = f"{run.status}{f': {run.why}' if run.why else ''}, {run.seconds:.0f} s"
            yield MadeRun(run.cell, str(run.turn), outcome, _links(going.directory, run, steps.get(run.cell, [])))


def _links(directory: Path, run: CellOutcome, steps: Sequence[str]) -> dict[str, str]:
    """By step: the report of one that was measured, the log of any other; of files that are there."""
    logs = {step: f"{run.cell}-{run.turn}-{step}.log" for step in steps}
    pages = {step: f"{name}/{Files.REPORT}" for step, name in run.runs.items()}
    return {step: path for step, path in {**logs, **pages}.items() if (directory / path).is_file()}


# ---- io-efficiency -------------------------------------------------------------------------------------------------
def efficiency_view(going: ExperimentRun, found: Efficiency) -> ExperimentView:
    """What the page of the IO-efficiency experiment shows: its cells are the measured steps."""
    record = going.record
    proofs = [(f"{m.step.id}: it is the workload that it is to be", _proved(m)) for m in found.measured]
    return ExperimentView(
        title=record.name,
        about=record.about,
        facts=f"{record.created}; {describe_host(record.host)}; RocksDB {record.tools.get('engine', '?')}",
        headings=[Heading(name, _OWN_LEGEND.get(name) or LEGEND[name], digits) for name, digits in _FIGURES.items()],
        values={_cell(row): {name: row.figures.get(name) for name in _FIGURES} for row in found.rows},
        judged=[*found.orders, *proofs],
        spread=_BOOTSTRAP,
        charted=_CHARTED,
        runs=[
            MadeRun(_cell(row), m.step.id, m.record.database.get("levels", ""), _page_of(going.directory, m))
            for row in found.rows
            for m in row.repeats
        ],
    )


def _cell(row: EfficiencyRow) -> str:
    return f"{row.step}, {row.users} user{'s' * (row.users != 1)}"


def _proved(measured: MeasuredStep) -> Judged:
    failed = [f"{c.name}: {c.value}" for c in measured.record.checks if c.verdict is Verdict.FAILED]
    return Judged(not failed, "; ".join(failed) or f"{len(measured.record.checks)} checks, none failed")


def _page_of(directory: Path, measured: MeasuredStep) -> dict[str, str]:
    path = f"{measured.step.directory}/{Files.REPORT}"
    return {measured.step.step: path} if (directory / path).is_file() else {}
