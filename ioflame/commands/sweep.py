"""`ioflame sweep`: which rate can it sustain? Latency at one rate after another, up to where a limit is missed.

Queries come at random moments, whether or not the engine keeps up; latency counts from the moment that a query was due.
Each rate is a process of its own on one database; three rates show the curve, the others close in on the highest that
keeps the limit. The client is ours (`--client ioflame`).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ground.errors import EXIT_INTERRUPTED, EXIT_OK, RefusedError
from ground.results.run import check_writable, new_directory
from ground.results.sweep import PERCENTILES, SweepRun
from ground.settings import Setting
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.ranges import number
from ioflame.commands.arguments import Commands, add_profile_arguments, profile_options
from ioflame.commands.outcome import kept
from ioflame.measure.job import planned
from ioflame.measure.sweep import SweepOptions, check_swept, sweep
from ioflame.present.sweep import shown_sweep, write_sweep_page
from viz.terminal.sweep import render_sweep
from workloads.database import locked
from workloads.engine import OUR_CLIENT

_EXAMPLES = """examples:
  ioflame sweep                                       readrandom, up to overload
  ioflame sweep --rocksdb 10.4.2 --limit p99=2ms --threads 4
  ioflame sweep --workload readwhilewriting --limit p99_9=10ms --duration 60
  ioflame sweep runs/20261126T000000-sweep-readrandom            a finished one again
"""
_ARRIVALS = ("poisson", "fixed")
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_SECONDS, _MOST_RUNS, _MOST_SECONDS = 20, 50, 86_400


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="which rate can it sustain? latency by the rate of queries",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("directory", type=Path, nargs="?", metavar="DIR", help="a finished sweep")
    add("--limit", default="", metavar="P=TIME", help=f"what a rate has to keep, of {', '.join(PERCENTILES)}: p99=2ms")
    add("--runs", default="8", metavar="N", help="rates at most, each twice --duration (default: 8)")
    add("--arrivals", default=_ARRIVALS[0], choices=_ARRIVALS, help="how queries come (default: poisson, at random)")
    add_profile_arguments(parser)
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
    print(render_sweep(view, terminal_width(sys.stdout)))
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
    runs = number("--runs", arguments.runs, int, 1, _MOST_RUNS)
    duration = number(Setting.DURATION, arguments.duration or str(_SECONDS), int, 1, _MOST_SECONDS)
    return SweepOptions(percentile, limit, runs, duration, arguments.arrivals)


def _limit(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"(\w+)=(\d+(?:\.\d+)?)(us|ms|s)", text)
    if match is None or match[1] not in PERCENTILES or not float(match[2]):
        raise RefusedError(f"--limit {text} is no percentile with a time", mend=f"--limit {'|'.join(PERCENTILES)}=2ms")
    return match[1], float(match[2]) * _UNITS[match[3]]
