"""`ioflame rocksdb`: releases of RocksDB that need no build: which there are, which are here, fetch one, remove one.

A release is the library within the jar that Maven Central has of it. It is fetched, once, when it is asked for
by its name, and is kept in $XDG_CACHE_HOME/ioflame/rocksdb; what is there needs no network.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator

from ground.errors import EXIT_OK, UsageError
from ground.text.columns import fold_line
from ground.text.progress import Reporter, terminal_width
from ioflame.commands.arguments import Commands
from workloads.libraries import JAR, asked_libraries, found_library
from workloads.registry import DEFAULT_ENGINE, engine_named
from workloads.release_cache import CachedRelease, ReleaseCache
from workloads.releases import Releases

_EXAMPLES = """examples:
  ioflame rocksdb list                          the releases, their compilers, which are here
  ioflame rocksdb get 9.10.0 10.4.2             fetch two now, to be without a network later
  ioflame rocksdb get rocksdbjni-10.4.2-linux64.jar   a jar that was fetched elsewhere
  ioflame profile --rocksdb 10.4.2              fetches it where it is not here
  ioflame compare --rocksdb 9.10.0,10.4.2       the first is the base
"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        DEFAULT_ENGINE,
        help="releases of RocksDB that need no build: list, get, remove",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    actions = parser.add_subparsers(metavar="list|get|remove", required=True)
    actions.add_parser("list", help="all that are known or here").set_defaults(run=run, action=_list)
    get = actions.add_parser("get", help="fetch releases, or unpack jars")
    get.add_argument("what", nargs="+", metavar="VERSION|JAR", help="10.4.2, 9.10.0..10.10.1, or a .jar")
    get.set_defaults(run=run, action=_get)
    remove = actions.add_parser("remove", help="remove releases from the cache")
    remove.add_argument("what", nargs="+", metavar="VERSION", help="as `list` calls it")
    remove.set_defaults(run=run, action=_remove)


def run(arguments: argparse.Namespace) -> int:
    code: int = arguments.action(engine_named(DEFAULT_ENGINE).releases(), arguments)
    return code


def _list(releases: Releases, _: argparse.Namespace) -> int:
    cache = ReleaseCache(releases)
    here = dict(cache.entries())
    width = terminal_width(sys.stdout)
    rows = [("release", "compiler", "bundled", "here"), *_rows(releases, here)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        line = "  ".join([*(text.ljust(size) for text, size in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
        print(line if width is None else fold_line(line, width, 4))
    print(f"cache: {cache.place}")
    return EXIT_OK


def _rows(releases: Releases, here: dict[str, CachedRelease]) -> Iterator[tuple[str, str, str, str]]:
    machine = os.uname().machine
    for one in releases.release:
        there = here.pop(one.version, None)
        state = f"since {there.date[:10]}" if there else f"no, {one.megabytes} MB to fetch"
        yield one.version, one.compiler.get(machine, "none"), one.bundled, state
    for name, there in here.items():
        yield name, there.compiler, "", f"since {there.date[:10]}, from {there.origin}"


def _get(releases: Releases, arguments: argparse.Namespace) -> int:
    reporter, asked = Reporter(), asked_libraries(releases, arguments.what)
    for one in asked:
        if releases.versions_in(one.what) is None and not one.what.endswith(JAR):
            found_library(releases, one.what, reporter)
            raise UsageError(
                f"{one.what} is a library already; the cache holds releases and jars",
                means="nothing was fetched",
                mend=f"ioflame profile --{releases.name} {shlex.quote(one.what)}",
            )
    # Jars first, which are here: one that is no good is refused before anything is fetched.
    for one in sorted(asked, key=lambda one: not one.what.endswith(JAR)):
        print(f"{one.name}: {found_library(releases, one.what, reporter).path}")
    return EXIT_OK


def _remove(releases: Releases, arguments: argparse.Namespace) -> int:
    ReleaseCache(releases).remove(arguments.what)
    return EXIT_OK
