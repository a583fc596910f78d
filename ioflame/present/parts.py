"""The parts of a finished run, each as sentences and tables: read from its files, nothing is made again.

The tables of a subject are imported where they are made: to show one part the others are not needed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ground.errors import IoflameError, UsageError
from ground.results.categories import Categories, knows_little, read_categories, read_operations, views_in
from ground.results.checks import render_checks
from ground.results.event_group import read_event_group
from ground.results.files import Files
from ground.results.findings import read_findings
from ground.results.io_latency import read_io_latency
from ground.results.job_costs import read_job_costs
from ground.results.ladder import read_ladder
from ground.results.record import current_name
from ground.results.roles import WRITES_VIEW
from ground.results.run import Run, read_or_none
from ground.settings import Setting
from ground.system.atomic_files import read_text
from ground.text.nearest import did_you_mean
from ground.text.tsv import Row
from ioflame import instruments
from ioflame.analysis.categories import costed
from ioflame.instruments.instrument import Part
from viz.table import Records, Section
from viz.terminal.table import section_text


def screen(run: Run, show: str, width: int = 100) -> str:
    """What of a run is read first, on one screen. show: the command that prints the rest"""
    from viz.tables.jobs import jobs_line
    from viz.terminal.summary import render_screen

    table = section_text(latency(run)[:1])
    costs = read_or_none(run.path(Files.JOB_COSTS), read_job_costs)
    jobs = jobs_line(costs) if costs is not None else ""
    return render_screen(run.record, _categories(run), read_findings(run.directory), table, width, show, jobs)


def latency(run: Run) -> Section:
    from viz.tables.latency import latency_section

    ladder = read_or_none(run.path(Files.LADDER), read_ladder)
    return latency_section(run.record.metrics, ladder, read_or_none(run.path(Files.IO_LATENCY), read_io_latency))


def parts_of(run: Run) -> dict[str, Part]:
    """What this run has: the views of its CPU profile, and of all parts what was measured."""
    views = {view: _view_part(view) for view in views_in(run.directory)}
    return {**views, **{name: part for name, part in all_parts().items() if part.is_in(run)}}


class Sections(NamedTuple):
    """What summary and page both have of a run, by part; notes: of what is there and cannot be shown"""

    found: dict[str, Section]
    notes: list[str]


def sections_of(run: Run) -> Sections:
    sections = Sections({}, [])
    for name in ("events", "operations", "jobs"):
        if _OWN[name].is_in(run):
            try:
                sections.found[name] = _OWN[name].make(run)
            except IoflameError as error:
                sections.notes.append(f"{_OWN[name].file} is not shown: {error.what}")
    return sections


def part_of(run: Run, name: str) -> Part:
    """name: of a part, or a view. UsageError where the run does not have it."""
    name = current_name(name)
    # Of its own instrument no other is needed.
    instrument = instruments.instrument_named(name)
    own = instrument.parts.get(name) if instrument is not None else _OWN.get(name)
    if own is not None and own.is_in(run):
        return own
    there = parts_of(run)
    if name in there:
        return there[name]
    mend = f"{did_you_mean(name, there)}one of: {', '.join(there)}"
    if name == "latency":
        what = f"{run.directory} has neither {Files.LADDER} nor {Files.IO_LATENCY}"
        raise UsageError(what, means=f"latency below the engine was not measured: {Setting.COLLECT} has it", mend=mend)
    if name in all_parts():
        what = f"{run.directory} has no {all_parts()[name].file}: {name} was not measured"
        raise UsageError(what, means=_why_absent(run, name), mend=mend)
    raise UsageError(
        f"{name} is neither a part of a run nor a view of this one, which has no {Files.of_view(name)}", mend=mend
    )


def _why_absent(run: Run, name: str) -> str:
    """Why a part was not measured, and what brings it."""
    observer = next((one.name for one in instruments.INSTRUMENTS.values() if name in one.parts), None)
    if observer is None:
        return all_parts()[name].absent
    lost = next((one for one in run.record.unobserved if one.kind == observer), None)
    if lost is not None:
        return f"{observer} did not watch: {lost.why}" + f" -> {lost.mend}" * bool(lost.mend)
    if run.record.of_kind(observer):
        return f"{observer} watched, but its result is missing: ioflame analyse {run.directory} may make it"
    return f"{observer} did not watch this run: {Setting.COLLECT} says what does"


def _view_part(view: str) -> Part:
    return Part("categories of the CPU profile", Files.of_view(view), lambda run: _view(run, view))


def _categories(run: Run) -> Categories | None:
    """The view of the screen; None where there is no profile."""
    if not run.path(Files.CATEGORIES).exists():
        return None
    owner = categories_in(run, "owner")
    if not knows_little(owner) or not run.path(Files.of_view(WRITES_VIEW)).exists():
        return owner
    return categories_in(run, WRITES_VIEW)


def categories_in(run: Run, view: str) -> Categories:
    """The table of a view that the run has."""
    return costed(read_categories(run.directory, view), run.record)


def _view(run: Run, view: str) -> Section:
    """A category view. us: the share of the CPU of a query, and of a storage read, in the plain windows."""
    from viz.tables.categories import categories_section

    return categories_section(run.record, categories_in(run, view))


def _windows(run: Run) -> Section:
    from viz.tables.windows import figures_table, windows_section

    return [figures_table(run.record), *windows_section(run.record)]


def _operations(run: Run) -> Section:
    from viz.tables.operations import operations_section

    return operations_section(read_operations(run.directory))


def _events(run: Run) -> Section:
    from viz.tables.event_group import group_section

    return group_section(read_event_group(run.path(Files.EVENT_GROUP)))


def _jobs(run: Run) -> Section:
    from viz.tables.jobs import jobs_section

    return jobs_section(read_job_costs(run.path(Files.JOB_COSTS)))


def _checks(run: Run) -> Section:
    rows = [{**dataclasses.asdict(check), "verdict": check.verdict.value} for check in run.record.checks]
    return [render_checks(run.record.checks, 100), Records("checks", rows)]


class _All(Part):
    """Every part: the text that a run is left with, the tables of all that was measured."""

    def text(self, run: Run, _: int | None = None) -> str:
        return read_text(run.path(Files.SUMMARY)).rstrip()

    def tables(self, run: Run) -> Mapping[str, Sequence[Row]]:
        parts = [part for name, part in parts_of(run).items() if name != "all"]
        return {name: rows for part in parts for name, rows in part.tables(run).items()}


_OWN: Mapping[str, Part] = {
    "windows": Part("the figures, window by window, and what each cost", Files.RECORD, _windows),
    "events": Part(
        "events of the group, by category",
        Files.EVENT_GROUP,
        _events,
        absent=f"perf recorded one event alone: {Setting.EVENT} with a group, such as '{{cycles,instructions}}'",
    ),
    "operations": Part(
        "CPU by kind of operation",
        Files.OPERATIONS,
        _operations,
        absent="the rules of its engine have no kinds of operation, or nothing was sampled",
    ),
    "jobs": Part(
        "flushes and compactions: what they cost, and what stalled writes",
        Files.JOB_COSTS,
        _jobs,
        absent="no flush or compaction was recorded: the engine's log was not read, or nothing was written",
    ),
    "latency": Part("from the engine to the device", Files.RECORD, latency, (Files.LADDER, Files.IO_LATENCY)),
    "checks": Part("every check", Files.RECORD, _checks),
    "all": _All("the whole summary", Files.RECORD, lambda _: []),
}
# After the parts of the instruments.
_LAST = ("checks", "all")


@functools.cache
def all_parts() -> Mapping[str, Part]:
    """By name, in the order of the summary: our own, and those of every instrument."""
    observed = {name: part for one in instruments.INSTRUMENTS.values() for name, part in one.parts.items()}
    last = {name: _OWN[name] for name in _LAST}
    return {**{name: part for name, part in _OWN.items() if name not in last}, **observed, **last}
