"""Copies of a loaded tree, one for each process that opens it: data files hard-linked, the rest copied.

Data files are never written to again, so all copies read the same blocks of the device, and whatever one process does
to its directory the others do not see.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ground.errors import HostError, UsageError, error_of_system
from ground.settings import Setting
from ground.text.units import format_bytes
from workloads.checks import free_bytes
from workloads.database import MANIFEST, is_loaded
from workloads.engine import Engine

_LEFT_FREE = 1 << 30
# Files that a compaction has replaced are there until it ends: overwrite made 1.6 times the data of a leveled tree.
_GROWN = 2
# Of a tree that we did not load.
_OF_A_COPY = b'{"schema": 1, "state": "loaded", "copy": true}\n'


@contextlib.contextmanager
def clones(
    engine: Engine, tree: Path, names: Sequence[str], *, link: bool, foreign: bool = False, written: bool = False
) -> Iterator[list[Path]]:
    """A copy of `tree` for each name, within; the caller holds the lock of `tree`, which is not open.

    link: data files are hard-linked; otherwise copied, so that the page cache holds each copy for itself
    foreign: the tree is the user's, and has no manifest; nothing is written into it
    written: each process writes into its copy
    What a killed ioflame left of them is removed first. HostError where the disk cannot hold copies.
    """
    place = tree.with_name(f"{tree.name}.arms")
    _remove(place)
    if written or not link:
        _check_room(tree, len(names), written=written)
    try:
        try:
            manifest = _OF_A_COPY if foreign else (tree / MANIFEST).read_bytes()
            made = [clone(engine, tree, place / name, link=link, manifest=manifest) for name in names]
        except OSError as error:
            raise error_of_system(error, place) from None
        yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check_room(tree: Path, copies: int, *, written: bool) -> None:
    each = sum(entry.stat().st_size for entry in os.scandir(tree) if entry.is_file())
    size, free = each * copies * (_GROWN if written else 1), free_bytes(tree)
    if size <= free - _LEFT_FREE:
        return
    if written:
        raise HostError(
            f"{copies} copies of {tree} may grow to {format_bytes(size)}; {format_bytes(free)} are free",
            means=f"each arm writes into its own copy, which becomes up to {_GROWN} times as large",
            mend=f"free some disk, or a smaller {Setting.NUM_KEYS}",
        )
    raise HostError(
        f"{copies} copies of {tree} are {format_bytes(size)}; {format_bytes(free)} are free",
        means="with buffered reads hard-linked copies would share the page cache",
        mend=f"free some disk, a smaller {Setting.NUM_KEYS}, or a {Setting.CONFIG} that reads with O_DIRECT",
    )


def clone(engine: Engine, tree: Path, to: Path, *, link: bool, manifest: bytes = _OF_A_COPY) -> Path:
    """A copy of `tree`, which is not open, as the directory `to`; data files are hard-linked or copied."""
    to.mkdir(parents=True)
    # First, so that what is killed from here on is known as ours.
    (to / MANIFEST).write_bytes(manifest)
    for entry in tree.iterdir():
        if link and entry.match(engine.about.data_files):
            os.link(entry, to / entry.name)
        elif engine.is_database_file(entry.name):
            shutil.copyfile(entry, to / entry.name)
    return to


def _remove(place: Path) -> None:
    """What was left there by one of us; UsageError where it is anything else."""
    if not place.exists():
        return
    foreign = [entry for entry in place.iterdir() if not is_loaded(entry) and not (entry.is_dir() and _empty(entry))]
    if foreign:
        raise UsageError(
            f"{place} holds {foreign[0].name}, which ioflame did not make",
            means="the arms' copies of the tree would take its place; nothing was started",
            mend=f"move it away, or {Setting.DB_DIR.to('<another directory>')}",
        )
    shutil.rmtree(place)


def _empty(directory: Path) -> bool:
    return not any(directory.iterdir())
