"""`ioflame analyse RUN`: everything that follows from what was recorded, made again from the run directory.

A file of `ioflame pack` is unpacked beside it first, with the symbols of the machine that recorded it. Its own outputs
alone are replaced: stacks, categories, flame graph, summary, and the profile, metrics and checks in `run.json`.
"""

from __future__ import annotations

import argparse
import lzma
import shlex
import tarfile
from pathlib import Path

from folding.symbol_fetch import fetch_names
from ground.errors import UsageError
from ground.results.files import Files
from ground.results.profile import mapped_objects
from ground.results.run import open_run
from ground.system.unpack import unpack_into
from ground.text.progress import Reporter
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import print_outcome
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("analyse", help="fold, check and draw a recorded run again", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="RUN", help="a run directory, or a packed one")
    add_options(parser, "analyse")
    parser.add_argument(
        "--debuginfod",
        action="store_true",
        help="ask the servers in DEBUGINFOD_URLS for names that this host lacks; nothing else ever does",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    place = arguments.directory.resolve()
    found = open_run(_unpacked(place) if place.is_file() else place)
    target = found.record.target
    if target is not None and target.redacted and not found.path(Files.PERF_DATA).exists():
        raise UsageError(
            f"{found.directory} is redacted: its recordings are not kept",
            means="nothing was changed; what was made of them is all there is",
            mend=f"ioflame report {shlex.quote(str(found.directory))}",
        )
    reporter = Reporter(quiet=arguments.quiet)
    if arguments.debuginfod:
        for one in fetch_names(mapped_objects(found.directory), reporter):
            if one.file is None:
                reporter.warn(f"no names for {one.path}: {one.why}")
    write_pages(found, analyse(found, reporter), reporter)
    return print_outcome(found, arguments.verbose)


def _unpacked(archive: Path) -> Path:
    """The run directory of a packed run, made beside it. UsageError where it is none, or one of its name is there."""
    try:
        with tarfile.open(archive) as packed:
            first = packed.next()
            name = first.name if first is not None else ""
            place = archive.parent / name
            if first is None or not first.isdir() or "/" in name or name in ("", ".", ".."):
                raise UsageError(
                    f"{archive} is no packed run",
                    means="its first entry is no run directory",
                    mend="ioflame pack RUN   (makes one)",
                )
            if place.exists():
                raise UsageError(
                    f"{place} is there already",
                    means="nothing was unpacked",
                    mend=f"ioflame analyse {shlex.quote(str(place))}   (or move it away)",
                )
            unpack_into(packed, archive.parent)
    except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
        raise UsageError(
            f"{archive} cannot be unpacked: {error}",
            means="it is no packed run, or was cut short",
            mend="ioflame pack RUN   (makes one)",
        ) from None
    return place
