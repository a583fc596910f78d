"""`ioflame profile`: one workload, watched window by window, from a loaded database to a report.

warm-up | plain | perf | plain | ..., all in the life of one process that we start, own and end: each of COLLECT watches
in a window of its own, between plain ones in which nothing is attached.
"""

from __future__ import annotations

import argparse

from ioflame.commands.analyse import analyse_command, conclude
from ioflame.commands.job import Job, new_record, resolve
from ioflame.commands.measure import keep, measure
from ioflame.errors import EXIT_INTERRUPTED, IoflameError
from ioflame.files import Files
from ioflame.options import add_profile_arguments, profile_options
from ioflame.process import Children, interruptible
from ioflame.progress import Reporter
from ioflame.run import Run
from workloads.database import Database, locked

__all__ = ("add_parser", "run")

_EXAMPLES = """examples:
  ioflame profile                                     readrandom, a few GB, with what this host offers
  ioflame profile --scale smoke                       does it work here? about a minute
  ioflame profile --db-bench ~/rocksdb/db_bench       your own build
  ioflame profile --db-dir /mnt/nvme/db --num-keys 100M --cache-size 1G --threads 4 --duration 60
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "profile",
        help="run a workload, profile it, print where its CPU goes",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_profile_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    with interruptible():
        job = resolve(profile_options(arguments), reporter)
        with locked(job.db_dir):
            return _profile(job, reporter)


def _profile(job: Job, reporter: Reporter) -> int:
    database = Database(job.engine, job.build, job.db_dir, job.sizing.shape, job.configuration.flags)
    loaded = database.check()
    run = Run.create(job.options.out, new_record(job))
    children = Children()
    try:
        with children:
            if not loaded:
                database.load(children, reporter, run.path("load.log"), job.sizing.cache_size)
            measure(job, database, run, children, reporter)
        run.point_latest()
        return conclude(run)
    except KeyboardInterrupt:
        keep(run, children, "interrupted")
        reporter.warn(f"interrupted; every process started here was stopped. Kept: {run.directory}")
        reporter.warn(f"missing: {'; '.join(run.record.missing) or 'the analysis; every window was measured'}")
        if run.path(Files.PERF_DATA).exists():
            reporter.warn(f"to fold what was recorded: {analyse_command(run)}")
        return EXIT_INTERRUPTED
    except IoflameError as error:
        keep(run, children, error.what)
        reporter.warn(f"what was measured until then is kept in {run.directory}")
        raise
