"""`ioflame runs [DIR]`: every run in a directory, the newest last: what it was, QPS, CPU per query, how it came out.

Profiles, attached services, comparisons, experiments, searches and pmp. The name of a run begins with the time at which
it began. One that cannot be read is listed with the reason.

examples:
  ioflame runs
  ioflame runs runs/20261123T001500-compare-readrandom     the processes of a comparison
  ioflame runs --tsv | grep comparison
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import msgspec

from ground.errors import EXIT_OK
from ground.results.run_list import list_runs
from ground.text.progress import terminal_width
from ground.text.tsv import tsv
from ioflame.commands.arguments import Commands
from viz.terminal.runs import render_runs


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "runs",
        help="what was measured so far, a line a run",
        description=__doc__,
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=Path("runs"), metavar="DIR", help="where they are (default: runs)"
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="a list of objects")
    forms.add_argument("--tsv", action="store_true", help="a line of names, then a row for each run")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = list_runs(arguments.directory)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found.runs)).decode())
    elif arguments.tsv:
        sys.stdout.write(tsv({"runs": [dataclasses.asdict(one) for one in found.runs]}))
    elif found.runs:
        print(render_runs(found, terminal_width(sys.stdout)))
    else:
        print(f"{arguments.directory} holds no run")
    return EXIT_OK
