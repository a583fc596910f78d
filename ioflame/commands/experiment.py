"""`ioflame experiment NAME`: the steps of an experiment in order, each a process of its own, resumable.

A step is noted as done once its result is on disk; `--resume DIR` goes on at the first that is not. A tree that an
interrupted step left behind is made again from the load before anything is measured on it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK
from ground.results.cells import CellsRun
from ground.results.checks import Verdict, render_checks, worst
from ground.results.experiment import ExperimentRun
from ground.system.process import interruptible, tool_path
from ground.text.progress import Reporter, shown_path, terminal_width
from ioflame.commands.arguments import Commands, add_profile_arguments, add_repetition, counts, profile_options
from ioflame.commands.outcome import add_to_asked_store, check_store, resumable
from ioflame.measure.cell_plan import CellsJob, check_host, resolve_cells
from ioflame.measure.cells import conduct_cells, refuse_others
from ioflame.measure.experiment import analysed, as_experiment, conduct, laid_out, resumed, write_tables
from ioflame.measure.job import Job, new_record, resolve
from ioflame.measure.options import ProfileOptions
from ioflame.present.experiment_page import cells_text, cells_view, efficiency_view, write_experiment_page
from viz.terminal.experiment import render_efficiency
from workloads.database import locked
from workloads.experiment import has_cells, own_definitions, read_experiment
from workloads.registry import engine_named

__all__ = ("add_parser", "run")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("experiment", help="run an experiment and print its tables", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="one of `ioflame list`, or a .toml file")
    add_repetition(parser)
    parser.add_argument("--resume", metavar="DIR", help="go on with the experiment in DIR (RESUME)")
    add_profile_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    check_store(arguments.store)
    options = profile_options(arguments)
    if has_cells(arguments.name):
        return _run_cells(arguments, options, reporter)
    options = as_experiment(options)
    users, repeats = counts("USERS", arguments.users), counts("REPEATS", arguments.repeats or "1")
    with interruptible():
        engine = engine_named(options.engine, own_definitions(arguments.name), options.client)
        experiment = read_experiment(arguments.name, engine)
        if any(kind == "baseline" for kind, _, _ in experiment.steps):
            tool_path("fio", "fio")
        job = resolve(options, reporter, experiment.name, engine)
        planned = list(experiment.plan(users, repeats[0]))
        record = new_record(job)
        with locked(job.db_dir):
            if arguments.resume:
                going = resumed(Path(arguments.resume).resolve(), planned, record)
            else:
                going = laid_out(experiment, planned, record, options.out)
            return _conduct(job, going, reporter, arguments.store)


def _run_cells(arguments: argparse.Namespace, options: ProfileOptions, reporter: Reporter) -> int:
    """An experiment of cells: a database and a row of the table each."""
    rounds = None if arguments.repeats is None else counts("REPEATS", arguments.repeats)[0]
    with interruptible():
        engine = engine_named(options.engine, own_definitions(arguments.name), options.client)
        job = resolve_cells(arguments.name, options, engine, rounds)
        check_host(job)
        record = job.record()
        with locked(job.place):
            if arguments.resume:
                going = CellsRun.open(Path(arguments.resume).resolve())
                refuse_others(going, record)
            else:
                going = CellsRun.create(options.out, record)
            return _conduct_cells(job, going, reporter, arguments.store)


def _conduct_cells(job: CellsJob, going: CellsRun, reporter: Reporter, store: str | None) -> int:
    if not resumable(lambda: conduct_cells(job, going, reporter), going.directory, reporter):
        return EXIT_INTERRUPTED
    view = cells_view(job.cells, going)
    print(cells_text(view, going, terminal_width(sys.stdout)))
    unfinished = any(run.status not in ("done", "left out") for run in going.record.runs)
    if unfinished:
        again = shlex.join(["--resume", str(going.directory)])
        reporter.warn(f"a cell failed; to run it again: the same command with {again}")
    _print_places(going.directory, write_experiment_page(view, going.directory))
    if job.shares:
        print(f"database:     {shown_path(job.directory(job.cells.cells[0]))}   (kept: the next run needs no load)")
    add_to_asked_store(store, going.directory, reporter)
    missed = any(one.holds is False for _, one in view.judged)
    return EXIT_CHECK_FAILED if unfinished or missed or view.amiss else EXIT_OK


def _conduct(job: Job, going: ExperimentRun, reporter: Reporter, store: str | None) -> int:
    if not resumable(lambda: conduct(job, going, reporter), going.directory, reporter):
        return EXIT_INTERRUPTED
    code = _print_tables(going)
    add_to_asked_store(store, going.directory, reporter)
    return code


def _print_tables(going: ExperimentRun) -> int:
    found = analysed(going)
    write_tables(going, found)
    width = terminal_width(sys.stdout)
    print(render_efficiency(going.record, found, width))
    failed = [
        replace(check, name=f"{m.step.id} {check.name}")
        for m in found.measured
        for check in m.record.checks
        if check.verdict is Verdict.FAILED
    ]
    if failed:
        print("Failed checks\n" + render_checks(failed, width))
    _print_places(going.directory, write_experiment_page(efficiency_view(going, found), going.directory))
    return EXIT_CHECK_FAILED if worst(failed) is Verdict.FAILED else EXIT_OK


def _print_places(directory: Path, page: Path) -> None:
    print(f"experiment:   {directory}\nreport:       {shown_path(page)}")
