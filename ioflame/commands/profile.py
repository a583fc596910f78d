"""`ioflame profile`: one workload, watched in turns, from a loaded database to a report.

warm-up, then rounds, all in the life of one process that we start, own and end: in each round every one of COLLECT has
a turn of a second, between turns in which nothing is attached. So all of them see the same minutes.
"""

from __future__ import annotations

import argparse

from ground.errors import EXIT_INTERRUPTED
from ground.results.run import Run
from ground.system.process import interruptible
from ground.text.progress import Reporter
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import add_to_asked_store, check_store, measured, print_outcome
from ioflame.measure.job import Job, new_record, resolve
from ioflame.measure.options import profile_options
from ioflame.measure.profile import database_of, load_and_measure
from workloads.database import locked

_EXAMPLES = """examples:
  ioflame profile                                     readrandom, a few GB, with what this host offers
  ioflame profile --scale smoke                       does it work here? about a minute
  ioflame profile --db-bench ~/rocksdb/db_bench       your own build
  ioflame profile --db-dir /mnt/nvme/db --num-keys 100M --cache-size 1G --threads 4 --duration 60
"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "profile",
        help="run a workload, profile it, print where its CPU goes",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    add_options(parser, "profile")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    check_store(arguments.store)
    with interruptible():
        job = resolve(profile_options(arguments), reporter)
        with locked(job.db_dir):
            return _profile(job, reporter, arguments)


def _profile(job: Job, reporter: Reporter, arguments: argparse.Namespace) -> int:
    database = database_of(job)
    run = Run.create(job.options.out, new_record(job))
    ended = "every process started here was stopped"
    if not measured(lambda: load_and_measure(job, database, run, reporter), run, reporter, ended):
        return EXIT_INTERRUPTED
    code = print_outcome(run, arguments.verbose)
    add_to_asked_store(arguments.store, run.directory, reporter)
    return code
