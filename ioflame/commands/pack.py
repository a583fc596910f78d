"""`ioflame pack RUN`: one file of a run with the symbols that its recordings need, to be looked at on another machine.

The file is an archive of the run directory; below RUN/mapped/.debug are the symbol tables, unwind tables and debug
information of what was mapped, without its code and constants. Paths, names of functions and of hosts are in it.

There: ioflame analyse FILE
"""

from __future__ import annotations

import argparse
import shlex
import tarfile
import tempfile
from pathlib import Path

from folding.symbol_cache import CACHE, KeptFile, keep_symbols
from ground.errors import EXIT_OK, UsageError
from ground.results.files import Files
from ground.results.profile import mapped_objects
from ground.results.run import Run, open_run
from ground.system.atomic_files import check_new
from ioflame.commands.arguments import Commands

ENDING = ".tar.xz"


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
    redacted = found.record.target is not None and found.record.target.redacted
    with tempfile.TemporaryDirectory(prefix="ioflame-pack-", dir=out.resolve().parent) as scratch:
        symbols, part = Path(scratch) / Files.MAPPED, Path(scratch) / out.name
        # What is redacted holds no recording that would need them, and they hold names.
        kept = [] if redacted else keep_symbols(mapped_objects(found.directory), found.path(Files.MAPPED), symbols)
        with tarfile.open(part, "w:xz") as archive:
            archive.add(found.directory, found.directory.name)
            if symbols.is_dir():
                archive.add(symbols, f"{found.directory.name}/{Files.MAPPED}")
        part.replace(out)
    _say(found, kept, out, redacted)
    return EXIT_OK


def _say(found: Run, kept: list[KeptFile], out: Path, redacted: bool) -> None:
    print(f"packed:  {out}   ({out.stat().st_size / 2**20:.1f} MiB)")
    print(f"holds:   the run directory {found.directory.name}" + (", whose names are redacted" if redacted else ""))
    if (found.path(Files.MAPPED) / CACHE).is_dir():
        print("         the symbols that it was packed with before, and none of this machine")
    for one in kept:
        print(f"         {one.held} of {one.path}")
    print(f"there:   ioflame analyse {out.name}")
