"""`ioflame show RUN [PART]`: a finished run on one screen, or a part of it whole; nothing is made again."""

from __future__ import annotations

import argparse
import os
import pydoc
import sys
from pathlib import Path

from ground.errors import EXIT_OK
from ground.results.run import open_run
from ground.text.progress import terminal_width
from ground.text.terminal import colours_of
from ground.text.tsv import tsv
from ioflame.commands.arguments import Commands
from ioflame.commands.outcome import print_screen
from ioflame.present.parts import all_parts, part_of
from viz.columns import folded
from viz.terminal.colour import painted


def _description() -> str:
    parts = "\n".join(f"  {name:<9} {part.about}" for name, part in all_parts().items())
    view = (
        "  VIEW      categories of the CPU profile: owner, leaf, and what else the engine's rules have, such as parts"
    )
    return f"{__doc__}\n\nparts:\n{parts}\n{view}"


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "show",
        help="a finished run on one screen, or a part of it",
        description=_description,
    )
    parser.add_argument("directory", type=Path, metavar="RUN", help="a run directory, such as runs/latest")
    parser.add_argument("part", nargs="?", metavar="PART", help="default: one screen of it all")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="the file that PART is read from, as it is; of several an object of them"
    )
    forms.add_argument("--tsv", action="store_true", help="PART as one table: a line of names with units, then rows")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = open_run(arguments.directory.resolve())
    if arguments.part is None and not (arguments.json or arguments.tsv):
        print_screen(found)
        return EXIT_OK
    name = arguments.part or "checks"
    part = part_of(found, name)
    if arguments.json:
        sys.stdout.write(part.json(found))
        return EXIT_OK
    if arguments.tsv:
        sys.stdout.write(tsv(part.tables(found)))
        return EXIT_OK
    width = terminal_width(sys.stdout)
    text = folded(part.text(found, width), width) + "\n"
    if sys.stdout.isatty():
        # What fits the screen needs no pager; R is for colours.
        options = os.environ.setdefault("LESS", "FRX")
        colours = colours_of(sys.stdout) if sys.stdin.isatty() and "R" in options.upper() else None
        pydoc.pager(text if colours is None else painted(text, colours))
    else:
        sys.stdout.write(text)
    return EXIT_OK
