"""`ioflame sweep`: which rate can it sustain? Latency at one rate after another, up to where a limit is missed.

Queries come at random moments, whether or not the engine keeps up; latency counts from the moment that a query was due.
Each rate is a process of its own on one database; three rates show the curve, the others close in on the highest that
keeps the limit. The client is ours (`--client ioflame`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ground.errors import EXIT_INTERRUPTED, EXIT_OK, RefusedError
from ground.results.run import check_writable, new_directory
from ground.results.sweep import PERCENTILES, SweepRun
from ground.settings import Setting
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.units import parse_time
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import kept
from ioflame.measure.job import planned
from ioflame.measure.options import profile_options
from ioflame.measure.sweep import SweepOptions, check_swept, sweep
from ioflame.present.sweep import shown_sweep, write_sweep_page
from viz.tables.sweep import sweep_section
from viz.terminal.table import section_text
from workloads.database import locked
from workloads.engine import OUR_CLIENT

_EXAMPLES = """examples:
  ioflame sweep                                       readrandom, up to overload
  ioflame sweep --rocksdb 10.4.2 --limit p99=2ms --threads 4
  ioflame sweep --workload readwhilewriting --limit p99_9=10ms --duration 60
  ioflame sweep runs/20261126T000000-sweep-readrandom            a finished one again
"""
# Of a rate, where nothing was said.
_SECONDS = 20
_LARGEST_LIMIT_US = 86_400e6


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="which rate can it sustain? latency by the rate of queries",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="a finished sweep")
    add_options(parser, "sweep")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    if arguments.directory is not None:
        return _print(arguments.directory.resolve())
    options = _options(arguments)
    arguments.client = _ours(arguments.client)
    asked = profile_options(arguments)
    check_writable(asked.out)
    with interruptible():
        what = planned(asked, reporter=reporter)
        check_swept(what.engine, asked.workload)
        with locked(what.db_dir):
            database = what.database()
            database.check()
            directory = new_directory(asked.out, f"sweep-{asked.workload}")
            if not kept(lambda: sweep(what, options, database, directory, reporter), directory, reporter):
                return EXIT_INTERRUPTED
    return _print(directory)


def _print(directory: Path) -> int:
    view = shown_sweep(SweepRun.open(directory).record)
    page = write_sweep_page(view, directory)
    print(section_text(sweep_section(view), terminal_width(sys.stdout)))
    print(f"sweep:        {shown_path(directory)}")
    print(f"report:       {shown_path(page)}   (one page; open it in a browser)")
    print(view.sentence)
    return EXIT_OK


def _ours(client: str | None) -> str:
    if client not in (None, "", OUR_CLIENT):
        raise RefusedError(
            f"{Setting.CLIENT.to(client)} offers no rate to all threads together; our client does",
            mend=f"without {Setting.CLIENT}",
        )
    return OUR_CLIENT


def _options(arguments: argparse.Namespace) -> SweepOptions:
    percentile, limit = _limit(arguments.limit) if arguments.limit else (PERCENTILES[1], None)
    return SweepOptions(percentile, limit, arguments.runs, arguments.duration or _SECONDS, arguments.arrivals)


def _limit(text: str) -> tuple[str, float]:
    """The percentile, and us."""
    percentile, _, time = text.partition("=")
    try:
        us = parse_time(time) * 1e6 if percentile in PERCENTILES else 0.0
    except ValueError:
        us = 0.0
    if not 0 < us < _LARGEST_LIMIT_US:
        mend = Setting.LIMIT.to(f"{'|'.join(PERCENTILES)}=2ms")
        raise RefusedError(f"{Setting.LIMIT.to(f'{text:.40}')}: expected a percentile with a time", mend=mend)
    return percentile, round(us, 3)
