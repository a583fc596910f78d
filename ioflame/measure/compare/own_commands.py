"""Arms that are whole command lines of the user's: `--arm A='./client --my flags'`. What differs between them is the
factor, flag by flag; the database that they name is the user's, and is left as it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from folding.stackfold import stackfold_binary
from ground.errors import RefusedError, UsageError
from ground.results.record import SeedRange
from ground.results.run import check_writable
from ground.system.cpus import held_on
from ground.text.progress import Reporter
from ioflame.measure.builds import build_of
from ioflame.measure.compare.arms import AskedArm, CompareOptions, PlannedArm
from ioflame.measure.job import Job, Planned, on_this_host, scale_of
from ioflame.measure.options import ProfileOptions
from workloads.build import EngineBuild
from workloads.database import Database
from workloads.engine import Engine
from workloads.engines.rocksdb.command_line import BenchCommand, differing_flags
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Sizing

# The engine's own: held by whoever has the database open. `struct flock` of Linux, 64 bits, for the whole file.
_LOCK = "LOCK"
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
# Of the open file and not of the process: that another descriptor of ours is closed does not let it go.
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", 37)


class GivenDatabase(Database):
    """A database that the user has loaded: nothing is written beside its copies, and its seeds are kept in memory."""

    def __init__(self, engine: Engine, build: EngineBuild, directory: Path, bench: BenchCommand) -> None:
        super().__init__(engine, build, directory, Sizing(shape_of(bench), bench.cache_size))
        self._program, self._bench = build.path, bench
        self._next = int(time.time())

    def take_seeds(self, step: str, threads: int) -> SeedRange:
        self.seeds.append(SeedRange(step, self._next, self._seeds_of(step, threads)))
        self._next += self.seeds[-1].threads
        return self.seeds[-1]

    def command(self, step: str, threads: int = 1, seed: int = 0) -> list[str]:
        """Of a look at its levels: nothing else is run on it but what the user gave."""
        del step, threads, seed
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

    def command(self, seed: int, report: Path, seconds: int, before: Sequence[str] = ()) -> list[str]:
        own = self.bench.measured(self.db_dir, report, seconds, seed)
        return held_on(self.options.cpus, [*before, str(self.build.path), *own])


def workload_of(engine: Engine, bench: BenchCommand, name: str) -> str:
    """The workload whose benchmark a command line runs, so that its threads' roles are known. UsageError for one that
    cannot be an arm. name: of the arm"""
    refused = bench.refused
    if refused is not None:
        raise UsageError(
            f"arm {name}: {refused.why}",
            means=f"{refused.means}; nothing was started",
            mend=f"--arm {shlex.quote(' '.join((f'{name}=...', refused.add)))}",
        )
    (benchmark,) = bench.benchmarks
    workloads = engine.workloads()
    fitting = [one for one, step in workloads.items() if step.benchmarks.split(",")[0] == benchmark]
    if not fitting or workloads[fitting[0]].creates:
        known = dict.fromkeys(step.benchmarks.split(",")[0] for step in workloads.values() if not step.creates)
        raise RefusedError(
            f"arm {name}: --benchmarks={benchmark} is not known here: which of its threads send queries is not",
            mend=f"--benchmarks={'|'.join(known)}",
        )
    return benchmark if benchmark in fitting else fitting[0]


def command_jobs(options: CompareOptions, reporter: Reporter) -> list[Job]:
    """Of arms that are command lines. UsageError for those that run different benchmarks."""
    check_writable(options.base.options.out)
    stackfold_binary()
    engine = engine_named(options.base.options.engine)
    benches = [_bench_of(asked) for asked in options.arms]
    run = {asked.name: bench.benchmarks[0] for asked, bench in zip(options.arms, benches, strict=True)}
    if len(set(run.values())) > 1:
        raise UsageError(
            f"arms run different benchmarks: {', '.join(f'{name}: {what}' for name, what in run.items())}",
            means="a query of one is not a query of the other; nothing was started",
            mend="arms of the same --benchmarks",
        )
    jobs: list[Job] = []
    for asked, bench in zip(options.arms, benches, strict=True):
        build = build_of(engine, asked.options, reporter)
        _check_flags(asked.name, bench, build)
        what = _planned(engine, asked.options, bench, build)
        # The host is checked once, for the base.
        first = jobs[0] if jobs else on_this_host(what, reporter)
        jobs.append(CommandJob(**vars(what), plan=first.plan, host_load=first.host_load, bench=bench, line=asked.value))
    return jobs


def _bench_of(asked: AskedArm) -> BenchCommand:
    if asked.bench is None:
        raise UsageError(
            f"arm {asked.name} is a client alone, and another arm is a whole command line",
            means="what runs in it is not known; nothing was started",
            mend=f"--arm {shlex.quote('='.join((asked.name, asked.value)) + ' <its flags>')}",
        )
    return asked.bench


def _check_flags(name: str, bench: BenchCommand, build: EngineBuild) -> None:
    unknown = sorted(bench.flags.keys() - build.flags) if build.flags is not None else []
    if unknown:
        raise UsageError(
            f"arm {name}: {build.path} does not know --{unknown[0]}",
            means="it would end at once; nothing was started",
            mend=f"{shlex.quote(str(build.path))} --help   (lists its flags)",
        )


def _planned(engine: Engine, options: ProfileOptions, bench: BenchCommand, build: EngineBuild) -> Planned:
    database = bench.database
    assert database is not None
    if not engine.stored_settings(database):
        raise RefusedError(
            f"--db={database}: there is no database of {engine.about.title}", mend=f"ls {shlex.quote(str(database))}"
        )
    fitting = [one for one in engine.configurations().values() if one.direct == bench.direct_reads]
    configuration = replace(fitting[0], flags=bench.meant_flags, cached_by_engine=False)
    sizing = Sizing(shape_of(bench), bench.cache_size)
    options = replace(options, threads=bench.threads, configuration=configuration.name)
    return Planned(options, engine, build, scale_of(options), sizing, Path(database), configuration)


def differing_between(arms: Sequence[PlannedArm]) -> dict[str, list[str]]:
    """Flags that differ, by arm; and the program, where it does."""
    jobs = [arm.job for arm in arms if not arm.twin_of and isinstance(arm.job, CommandJob)]
    found = differing_flags([job.bench for job in jobs])
    programs = [str(job.build.path) for job in jobs]
    return ({"tool program": programs} if len(set(programs)) > 1 else {}) | found


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
