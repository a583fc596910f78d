"""A cell that is a command line of the user's: run and watched as `ioflame run` does it, its figures by name."""

from __future__ import annotations

import shlex
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.accounts import accounts_in
from ground.results.categories import read_views
from ground.results.cells import CellOutcome, CellsRun
from ground.results.command_run import CommandRun
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.analysis.run_figures import run_figures
from ioflame.measure.attach.conduct import parts_of_seconds
from ioflame.measure.attach.job import AttachOptions
from ioflame.measure.cell_plan import CellsJob
from ioflame.measure.own_command.added_words import added_words
from ioflame.measure.own_command.command_words import checked_command
from ioflame.measure.own_command.watched_command import CommandOptions, WatchedCommand
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.cells import COMMAND, CellRun


def command_step(
    job: CellsJob, run: CellRun, outcome: CellOutcome, going: CellsRun, log: Path, reporter: Reporter
) -> tuple[dict[str, float], list[str]]:
    """Its figures, and the words that were started. MeasurementError where it failed, or was not one benchmark."""
    assert job.recording is not None
    command = checked_command([run.cell.command])
    home = CommandRun.create(going.directory, command.program, __version__, list(command.argv))
    client = command.client
    attach = _attach(job, run.cell.command, going.directory, command.called)
    added, report = added_words(command, home, reporter, untouched=False, counted=command.called is not None)
    lines, seconds = client is not None and bool(client.line), job.scale.duration * parts_of_seconds(attach.collect)
    options = CommandOptions(command, added, report, float(seconds), None, False, None, attach, lines=lines, log=log)
    watched = WatchedCommand(options, home, job.recording, reporter)
    watched.start_and_watch()
    if watched.code:
        raise MeasurementError(f"{command.program}: {home.record.end}", mend=f"less {shlex.quote(str(log))}")
    if len(watched.runs) != 1:
        what = "nothing of it was measured" if not watched.runs else f"it ran {len(watched.runs)} benchmarks"
        raise MeasurementError(
            f"{command.program}: {what}; a cell is one", mend="a command of one benchmark, with time"
        )
    (one,) = watched.runs
    write_pages(one, analyse(one, Reporter(quiet=True)), Reporter(quiet=True))
    outcome.runs[COMMAND] = f"{home.directory.name}/{one.directory.name}"
    outcome.note_failed(COMMAND, one.record.checks)
    figures = run_figures(one.record, read_views(one.directory), None, accounts_in(one.directory))
    return figures, [*command.argv, *added]


def _attach(job: CellsJob, asked: str, out: Path, symbol: str | None) -> AttachOptions:
    options = job.options
    callgraph = "fp" if options.callgraph == "auto" else options.callgraph
    return AttachOptions(
        pids=[], group=None, asked=asked, seconds=0.0, engine=None, rules=None, counts={}, symbol=symbol,
        event=options.event, frequency=options.frequency, callgraph=callgraph, collect=job.scale.collect,
        asked_to_collect=True, device=None, budget=None, period=0.0, redact=False, out=out, quiet=True,
    )  # fmt: skip
