"""`ioflame experiment NAME`: the cells of an experiment in order, each step a process of its own, resumable.

A cell is noted as done once its result is on disk; `--resume DIR` continues at the first that is not. A tree that an
interrupted step left behind is rebuilt from the load before anything is measured on it.
"""

from __future__ import annotations

import argparse
import shlex
import sys

from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK
from ground.results.cells import CellsRun
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import add_to_asked_store, check_store, kept
from ioflame.measure.experiment.conduct import conduct_cells
from ioflame.measure.experiment.job import CellsJob
from ioflame.measure.experiment.plan import check_host, resolve_cells
from ioflame.measure.options import profile_options
from ioflame.measure.study import begin_or_resume
from ioflame.present.experiment_page import cells_text, cells_view, unwatched, write_experiment_page
from workloads.database import locked
from workloads.experiment import own_definitions
from workloads.registry import engine_named


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("experiment", help="run an experiment and print its tables", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="one of `ioflame list`, or a .toml file")
    add_options(parser, "experiment")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    check_store(arguments.store)
    options = profile_options(arguments)
    with interruptible():
        engine = engine_named(options.engine, own_definitions(arguments.name), options.client)
        job = resolve_cells(arguments.name, options, engine, arguments.repeats, arguments.users, reporter)
        check_host(job)
        record = job.record()
        with locked(job.place):
            study = begin_or_resume(CellsRun, record, options.out, arguments.resume)
            return _conduct(job, study, reporter, arguments.store)


def _conduct(job: CellsJob, study: CellsRun, reporter: Reporter, store: str | None) -> int:
    if not kept(lambda: conduct_cells(job, study, reporter), study.directory, reporter, resume=True):
        return EXIT_INTERRUPTED
    view, lost = cells_view(job.cells, study), unwatched(study)
    if lost:
        print("\n".join(lost))
    print(cells_text(view, study, terminal_width(sys.stdout)))
    unfinished = any(run.status not in ("done", "left out") for run in study.record.runs)
    if unfinished:
        again = shlex.join(["--resume", str(study.directory)])
        reporter.warn(f"a cell failed; to run it again: the same command with {again}")
    page = write_experiment_page(view, study.directory)
    print(f"experiment:   {study.directory}\nreport:       {shown_path(page)}")
    if job.shares and not job.grows:
        print(f"database:     {shown_path(job.directory(job.cells.cells[0]))}   (kept: the next run needs no load)")
    add_to_asked_store(store, study.directory, reporter)
    missed = any(one.holds is False for _, one in view.judged)
    return EXIT_CHECK_FAILED if unfinished or missed or view.failed or lost else EXIT_OK
