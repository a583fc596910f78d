"""`ioflame pack RUN`: one file of a run with the symbols that its recordings need, to be looked at on another machine.

The file is an archive of the run directory; below RUN/mapped/.debug are the symbol tables, unwind tables and debug
information of what was mapped, without its code and constants. Paths, names of functions and of hosts are in it.

There: ioflame analyse FILE
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ground.errors import EXIT_OK, UsageError
from ground.results.run import open_run
from ground.system.atomic_files import check_new
from ioflame.commands.arguments import Commands
from ioflame.present.pack import ENDING, pack


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "pack",
        help="one file of a run, to be looked at elsewhere",
        description=__doc__,
    )
    parser.add_argument("directory", type=Path, metavar="RUN", help="a run directory, such as runs/latest")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help=f"default: the name of RUN with {ENDING}")
    parser.add_argument("--force", action="store_true", help="write over a FILE that is there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = open_run(arguments.directory.resolve())
    out: Path = arguments.out or Path(found.directory.name + ENDING)
    if not out.name.endswith(ENDING):
        raise UsageError(f"--out {out}: a packed run is an archive", mend=f"--out {shlex.quote(str(out) + ENDING)}")
    if not arguments.force:
        check_new(out, str(out), "--force, or -o OTHER")
    print(pack(found, out).words)
    return EXIT_OK
