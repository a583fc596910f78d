"""What an experiment found, from what lies in its directory: `experiment.html`, `summary.txt` and tables with tabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ground.results.cells import CellOutcome, CellsRun
from ground.results.files import Files
from ground.system.atomic_files import write_whole
from ioflame.analysis.cell_draws import CellRuns
from ioflame.present.cell_builds import breakdowns_of, compared_builds
from ioflame.present.cell_seconds import database_facts, report_tsv, tables_of
from ioflame.stages.cell_runs import measured_cells, seconds_of_cells
from ioflame.stages.cell_table import headings_of, judged, values_of
from viz.experiment_view import ExperimentView, MadeRun, Spread
from viz.export.relative_tables import render_relative_tsv
from viz.page.document import write_page
from viz.page.experiment import render_experiment
from viz.terminal.cells import cells_tsv, facts_of, render_cells
from viz.terminal.columns import aligned
from viz.terminal.relative import render_relative
from workloads.cells import Cells

__all__ = ("cells_text", "cells_view", "write_experiment_page")

_QUARTERS = Spread("the quarters of its runs, of which there are four or more.")
_BOOTSTRAP = Spread(
    "95 % interval, by bootstrap over the runs and the seconds of their plain windows; "
    "one run tells nothing of what differs from run to run (REPEATS=3 does).",
    ("from", "to"),
    ("from", "to"),
    explained=True,
)


def write_experiment_page(view: ExperimentView, directory: Path) -> Path:
    """Writes the page into the experiment's directory; its path."""
    out = directory / Files.EXPERIMENT
    write_page(render_experiment(view), out)
    return out


def cells_view(cells: Cells, going: CellsRun, measured: Mapping[str, CellRuns] | None = None) -> ExperimentView:
    """What the page of an experiment shows. measured: the runs of its cells, where they are read already"""
    record, compared = going.record, compared_builds(cells, going)
    seconds = None
    if cells.spread == "bootstrap":
        seconds = seconds_of_cells(cells, measured_cells(cells, going) if measured is None else measured)
    drawn = None if seconds is None else seconds.columns
    looked_at = {column for hold in cells.holds for column in (hold.column, hold.other)}
    failed = [f"{run.cell}, run {run.turn}: {run.why}" for run in record.runs if run.status == "failed"]
    return ExperimentView(
        title=record.name,
        about=cells.about,
        facts="; ".join([facts_of(record), *([] if seconds is None else database_facts(seconds.runs))]),
        headings=headings_of(cells),
        values=values_of(cells, record, drawn),
        judged=[*((hold.what, one) for hold, one in judged(cells, record, drawn)), *compared.agrees],
        published={row.name: row.published for row in cells.table_rows()},
        spread=_QUARTERS if seconds is None else _BOOTSTRAP,
        beside="Where the CPU goes" if seconds is None else "What was written, fio, differences, the CPU, checks",
        charted=[c.name for c in cells.columns if c.name in looked_at or c.chart or not cells.holds],
        relative=compared.tables,
        breakdowns=breakdowns_of(cells, going) if seconds is None else list(tables_of(cells, going, seconds)),
        report_tsv="" if seconds is None else report_tsv(cells, going, seconds.runs),
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
            f"{one.caption}\n{aligned([one.heads, *one.rows], columns)}" + f"\n  {one.legend}" * bool(one.legend)
            for one in view.breakdowns
        ]
        return render_cells(going.record, view, [*view.notes, *further], columns)

    directory = going.directory
    write_whole(directory / Files.SUMMARY, text(None).encode("utf-8", "replace"))
    write_whole(
        directory / "summary.tsv", cells_tsv(view.headings, view.values, view.spread.columns).encode("utf-8", "replace")
    )
    if view.report_tsv:
        write_whole(directory / "report.tsv", view.report_tsv.encode("utf-8", "replace"))
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
