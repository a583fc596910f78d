"""`ioflame analyse RUN`: everything that follows from what was recorded, made again from the run directory.

It replaces its own outputs only: stacks, categories, flame graph, summary, and the
profile, metrics and checks in `run.json`.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ground.errors import UsageError
from ground.results.files import Files
from ground.results.run import open_run
from ground.text.progress import Reporter
from ioflame.commands.arguments import Commands
from ioflame.commands.outcome import print_outcome
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse

__all__ = ("add_parser", "run")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("analyse", help="fold, check and draw a recorded run again", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="RUN", help="a run directory, such as runs/latest")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, only results and warnings")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the whole summary, not one screen of it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = open_run(arguments.directory.resolve())
    target = found.record.target
    if target is not None and target.redacted and not found.path(Files.PERF_DATA).exists():
        raise UsageError(
            f"{found.directory} is redacted: its recordings are not kept",
            means="nothing was changed; what was made of them is all there is",
            mend=f"ioflame report {shlex.quote(str(found.directory))}",
        )
    reporter = Reporter(quiet=arguments.quiet)
    write_pages(found, analyse(found, reporter), reporter)
    return print_outcome(found, arguments.verbose)
