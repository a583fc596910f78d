"""An arm that is a whole command line: its job, and the database that it names, which is the user's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ground.errors import UsageError
from ground.results.record import SeedRange
from ground.system.cpus import held_on
from ioflame.measure.job import Job
from workloads.build import EngineBuild
from workloads.database import Database
from workloads.engine import Engine
from workloads.engines.rocksdb.command_line import BenchCommand
from workloads.steps import DatabaseShape

# The engine's own: held by whoever has the database open. `struct flock` of Linux, 64 bits, for the whole file.
_LOCK = "LOCK"
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
# Of the open file and not of the process: that another descriptor of ours is closed does not let it go.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", 37)


class GivenDatabase(Database):
    """A database that the user has loaded: nothing is written beside its copies, and its seeds are kept in memory."""

    def __init__(self, engine: Engine, build: EngineBuild, directory: Path, bench: BenchCommand) -> None:
        super().__init__(engine, build, directory, shape_of(bench), bench.cache_size)
        self._program, self._bench = build.path, bench
        self._next = int(time.time())

    def take_seeds(self, step: str, threads: int) -> SeedRange:
        taken = self.any_seeds(step, threads)
        self.seeds.append(SeedRange(step, self._next, taken.threads))
        self._next += taken.threads
        return self.seeds[-1]

    def command(self, step: str, seeds: SeedRange, **run: Any) -> list[str]:
        """Of a look at its levels: nothing else is run on it but what the user gave."""
        del step, seeds, run
        return [str(self._program), *self._bench.levels(self.directory)]


def shape_of(bench: BenchCommand) -> DatabaseShape:
    """What its flags say of the database that it opens."""
    key, value, block = bench.sizes
    return DatabaseShape(bench.keys, key_size=key, value_size=value, block_size=block)


@dataclass(frozen=True)
class CommandJob(Job):
    """bench: as it was given; line: the same in words"""

    bench: BenchCommand
    line: str

    @property
    def asked(self) -> dict[str, str]:
        return {**super().asked, "command": self.line}

    def database(self) -> Database:
        return GivenDatabase(self.engine, self.build, self.db_dir, self.bench)

    def command(self, seeds: SeedRange, report: Path, seconds: int, before: Sequence[str] = ()) -> list[str]:
        own = self.bench.measured(self.db_dir, report, seconds, seeds.first)
        return held_on(self.options.cpus, [*before, str(self.build.path), *own])


@contextlib.contextmanager
def closed_to_others(directory: Path) -> Iterator[None]:
    """Within, nobody can open the database, so it does not change while copied. UsageError where it is open."""
    path = directory / _LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}",
            means="whether the database is open elsewhere is not known; nothing was started",
            mend=f"ls -l {shlex.quote(str(path))}",
        ) from None
    try:
        try:
            fcntl.fcntl(handle, _SET_LOCK, _WHOLE_FILE)
        except OSError:
            raise UsageError(
                f"{directory} is open in another process",
                means="a copy of what is being written would be none; nothing was started",
                mend=f"end it first: fuser {shlex.quote(str(path))} names it",
            ) from None
        yield
    finally:
        os.close(handle)
