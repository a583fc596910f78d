"""What an experiment found, from the files in its directory: `experiment.html`, `summary.txt` and tables with tabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.results.cells import CellOutcome, CellsRecord, CellsRun
from ground.results.compilers import compilers_apart
from ground.results.differences import RelativeTable
from ground.results.files import Files
from ground.results.run import open_run, read_or_none
from ground.settings import Setting
from ground.system.atomic_files import write_whole
from ioflame.analysis.cell_draws import CellRuns
from ioflame.present.cell_builds import breakdowns_of, compared_builds, stacked_builds
from ioflame.present.cell_seconds import database_facts, report_tsv, tables_of
from ioflame.present.published_curve import beside_published, published_ratios
from ioflame.stages.cells import Drawn, headings_of, judged, measured_cells, seconds_of_cells, values_of
from viz.experiment_view import ExperimentView, MadeRun, Spread
from viz.page.document import write_page
from viz.page.experiment import render_experiment
from viz.table import Table
from viz.tables.relative import relative_section, render_relative_tsv
from viz.terminal.cells import cells_tsv, facts_of, render_cells
from viz.terminal.summary import lost_lines
from viz.terminal.table import section_text
from workloads.cells import Cells

_QUARTERS = Spread("the 25th to 75th percentile of its runs, of which there are four or more.")
_BOOTSTRAP = Spread(
    "95 % interval, by bootstrap over the runs and the seconds of their baseline windows; "
    f"one run cannot show what differs from run to run ({Setting.REPEATS.to(3)} does).",
    "95 % interval",
    ("from", "to"),
    beside="What was written, fio, differences, the CPU, checks",
)


@dataclass(frozen=True)
class _Spread:
    """What the kind of spread brings to an experiment's page: its words, and what only that kind has.

    drawn: the columns by the seconds of the runs; None where the values are those of whole runs
    """

    spread: Spread
    breakdowns: Sequence[Table[Sequence[str]]]
    facts: Sequence[str] = ()
    drawn: Drawn | None = None
    report_tsv: str = ""


def _by_runs(cells: Cells, going: CellsRun) -> _Spread:
    return _Spread(_QUARTERS, breakdowns_of(cells, going))


def _by_seconds(cells: Cells, going: CellsRun, measured: Mapping[str, CellRuns] | None) -> _Spread:
    seconds = seconds_of_cells(cells, measured_cells(cells, going) if measured is None else measured)
    return _Spread(
        _BOOTSTRAP,
        list(tables_of(cells, going, seconds)),
        database_facts(seconds.runs),
        seconds.columns,
        report_tsv(cells, going, seconds.runs),
    )


def write_experiment_page(view: ExperimentView, directory: Path) -> Path:
    """Writes the page into the experiment's directory; its path."""
    out = directory / Files.EXPERIMENT
    write_page(render_experiment(view), out)
    return out


def cells_view(cells: Cells, going: CellsRun, measured: Mapping[str, CellRuns] | None = None) -> ExperimentView:
    """What the page of an experiment shows. measured: the runs of its cells, where they are read already"""
    record, compared = going.record, compared_builds(cells, going)
    by = _by_seconds(cells, going, measured) if cells.spread == "bootstrap" else _by_runs(cells, going)
    looked_at = {column for hold in cells.holds for column in (hold.column, hold.other)}
    failed = [f"{run.cell}, run {run.turn}: {run.why}" for run in record.runs if run.status == "failed"]
    return ExperimentView(
        title=record.name,
        about=cells.about,
        facts="; ".join([facts_of(record), *by.facts]),
        headings=headings_of(cells),
        values=values_of(cells, record, by.drawn),
        judged=[*((hold.what, one) for hold, one in judged(cells, record, by.drawn)), *compared.agrees],
        published={row.name: row.published for row in cells.table_rows()},
        spread=by.spread,
        charted=[c.name for c in cells.columns if c.name in looked_at or c.chart or not cells.holds],
        relative=compared.tables,
        curves=_curves(cells, compared.tables, record),
        stacked=stacked_builds(cells, going),
        breakdowns=[*beside_published(cells.curve, compared.tables, _versions(record)), *by.breakdowns],
        report_tsv=by.report_tsv,
        runs=list(_made(cells, going)),
        builds=compared.facts,
        failed=[*failed, *(f"{run.cell}, run {run.turn}: {words}" for run in record.runs for words in run.amiss)],
        notes=[*compared.barred, *_compilers(record)],
        cannot=cells.cannot,
    )


def unwatched(going: CellsRun) -> list[str]:
    """What was asked for and did not watch in a run of a cell, once each; runs that are gone tell nothing."""
    lines: dict[str, None] = {}
    for outcome in going.record.runs:
        for step, directory in outcome.runs.items():
            run = read_or_none(going.directory / directory, open_run)
            lines |= dict.fromkeys(
                f"{outcome.cell}, {step}: {line}" for line in (lost_lines(run.record) if run else ())
            )
    return list(lines)


def cells_text(view: ExperimentView, going: CellsRun, width: int | None) -> str:
    """What the page shows as text, also as files in the experiment's directory."""

    def text(columns: int | None) -> str:
        further = [section_text(relative_section(table), columns) for _, table in view.relative]
        further += [section_text(view.breakdowns, columns)]
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


def _curves(
    cells: Cells, tables: Sequence[tuple[str, RelativeTable]], record: CellsRecord
) -> dict[str, dict[str, dict[str, float]]]:
    """What was published of the ratios in these tables, by what they are of."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for group, table in tables:
        found.setdefault(group, {}).update(published_ratios(cells.curve, group, table, _versions(record)))
    return found


def _versions(record: CellsRecord) -> dict[str, str]:
    return {name: facts.get("version", name) for name, facts in record.builds.items()}


def _compilers(record: CellsRecord) -> Iterator[str]:
    """The builds' compilers, where versions are compared that different ones built."""
    said = compilers_apart(
        {name: (facts.get("version", ""), facts.get("engine_compiler", "")) for name, facts in record.builds.items()}
    )
    if said:
        yield said


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
