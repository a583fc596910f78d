"""An experiment of cells as it is run here: builds, databases, jobs and command lines of its steps, and their time."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from collectors.perf import Plan
from ground.results.cells import CellOutcome, CellsRecord
from ground.system.host import host_facts
from ground.text.units import format_bytes, format_count, format_seconds
from ioflame.measure.builds import readable_by_all
from ioflame.measure.job import Job, cache_of
from ioflame.measure.options import ProfileOptions
from ioflame.measure.own_command.command_line import checked_command
from workloads.artifact import artifact_facts
from workloads.build import EngineBuild
from workloads.cells import BASELINE, COMMAND, Cell, CellRun, Cells
from workloads.database import Database
from workloads.engine import Engine
from workloads.releases import older
from workloads.scales import DatabaseShape, Scale, Sizing
from workloads.steps import Configuration

# The name of a database that all cells share, before its number of keys.
_SHARED = "shared"
# What a disk worth measuring writes at least, while a compaction reads from it.
_WRITES_PER_SECOND = 100 << 20
# Opening, two looks at pending compactions 5 s apart, closing.
_PREPARE_SECONDS = 8
# perf's start and end and what the engine is given to spare for them, settling, looking at the tree, folding.
_MEASURE_SECONDS = 16
# Of fio at most, whose figures vary little.
LONGEST_BASELINE_SECONDS = 60


@dataclass(frozen=True)
class CellsJob:
    """An experiment of cells that can be run here: nothing of it has been started.

    builds: by name, the base first; recording: how perf records a step that is a workload; None where none is
    own:    what cells run with that name an engine or a client, by both names; notes: what is profile's, in words
    """

    options: ProfileOptions
    cells: Cells
    engine: Engine
    builds: Mapping[str, EngineBuild]
    num_keys: int
    rounds: int
    place: Path
    recording: Plan | None
    own: Mapping[tuple[str, str], tuple[Engine, EngineBuild]]
    notes: Sequence[str] = ()

    @property
    def build(self) -> EngineBuild:
        """The base."""
        return next(iter(self.builds.values()))

    def build_of(self, cell: Cell) -> EngineBuild:
        return self.own[driver(cell)][1] if driver(cell) in self.own else self.builds.get(cell.build, self.build)

    def engine_of(self, cell: Cell) -> Engine:
        return self.own[driver(cell)][0] if driver(cell) in self.own else self.engine

    def _versions(self) -> dict[str, str]:
        """Of every engine that is run, by its title, the base first."""
        own = {engine.about.title: build.version for engine, build in self.own.values()}
        return {self.engine.about.title: self.build.version, **own}

    def without(self, cell: Cell) -> str:
        """Why a cell cannot be run by its build; "" where it can."""
        version, title = self.build_of(cell).version, self.engine_of(cell).about.title
        return f"it needs {title} {cell.since}; this is {version}" if older(version, cell.since) else ""

    @property
    def grows(self) -> bool:
        """All cells have one database, which some of them make."""
        return self.cells.layout.database == "grown"

    @property
    def shares(self) -> bool:
        """All cells have one database, which is kept."""
        return self.grows or self.cells.layout.database == _SHARED

    @property
    def announced(self) -> bool:
        """Whether it is said before the first step what all of them take: one tree is grown, or builds alternate."""
        return self.grows or len(self.builds) > 1

    def directory(self, cell: Cell) -> Path:
        """Of its database."""
        if self.grows:
            return self.place
        return self.place / (f"{_SHARED}-{self.num_keys}" if self.shares else cell.name)

    def threads(self, cell: Cell, step: str) -> int:
        own = 0 if step in (BASELINE, COMMAND) else self.engine_of(cell).step(step).threads
        return own or cell.threads or self.options.threads

    def estimate(self, done: Container[tuple[str, int]] = ()) -> Iterator[str]:
        """What it takes in steps, time and disk, but for the runs of cells that are done."""
        first, scale = self.cells.cells[0], self.scale
        shape = self.cells.shape(first, self.num_keys)
        seconds: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for kind, expected in self.steps_left(done):
            seconds[kind] += expected
            counts[kind] += 1
        parts = ", ".join(f"{counts[kind]} {kind} {format_seconds(seconds[kind])}" for kind in counts)
        yield f"{counts.total()} steps, about {format_seconds(seconds.total())}: {parts}"
        cache = _cache(self, first, _configuration(self, first, ""))
        yield (
            f"{format_count(shape.num_keys)} keys, {format_bytes(shape.data_bytes)} of data, "
            f"{format_bytes(shape.disk_bytes)} of disk at most; block cache {format_bytes(cache)}; "
            f"windows of {scale.duration} s after at most {scale.warmup} s of warm-up"
        )

    def steps_left(self, done: Container[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """Kind and expected seconds of each step, but for those of the runs that are done."""
        shape = self.cells.shape(self.cells.cells[0], self.num_keys)
        for run in self.plan():
            for step in self.cells.steps_of(run.cell) if (run.cell.name, run.turn) not in done else ():
                kind = self.kind(step)
                yield kind, round(step_seconds(self.engine, kind, step, shape, self.scale))

    def kind(self, step: str) -> str:
        """`baseline`, `measure` or `prepare`."""
        measured = step == COMMAND or step in self.engine.workloads()
        return "baseline" if step == BASELINE else "measure" if measured else "prepare"

    @property
    def scale(self) -> Scale:
        return self.cells.scale[self.options.scale]

    def plan(self) -> list[CellRun]:
        return list(self.cells.runs(self.rounds))

    def asked(self, cell: Cell) -> str:
        """A digest of what is run of a cell: its steps, flags and command line, as its file has them."""
        plain = structs.replace(cell, published={})
        words = repr((structs.astuple(plain), self.cells.steps_of(cell), self.cells.layout))
        return hashlib.blake2b(words.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

    def record(self) -> CellsRecord:
        """Of an experiment nothing of which is done."""
        return CellsRecord(
            self.cells.name, time.strftime("%Y-%m-%dT%H:%M:%S%z"), self.num_keys, self.options.as_text(),
            host_facts(),
            {
                "engine": ", ".join(f"{title} {version}" for title, version in self._versions().items()),
                "engine_binary": str(self.build.path),
                **self.build.hardware,
            },
            [
                CellOutcome(
                    run.cell.name, run.turn, run.round, "left out" if why else "todo", why=why,
                    asked=self.asked(run.cell),
                )
                for run in self.plan()
                for why in [self.without(run.cell)]
            ],
            {name: build_facts(build) for name, build in self.builds.items()} if len(self.builds) > 1 else {},
        )  # fmt: skip


def driver(cell: Cell) -> tuple[str, str]:
    return cell.engine, cell.client


def commanded(job: CellsJob, cell: Cell) -> list[str]:
    """The steps of a cell that the engine's client runs."""
    return [step for step in job.cells.steps_of(cell) if step not in (BASELINE, COMMAND)]


def database_of(job: CellsJob, run: CellRun, directory: Path, step: str = "") -> Database:
    """The database of a cell, as a step of it is run on it."""
    shape = readable_by_all(job.engine, job.options, job.cells.shape(run.cell, job.num_keys))
    configuration = _configuration(job, run.cell, step)
    sizing = Sizing(shape, _cache(job, run.cell, configuration))
    return Database(job.engine_of(run.cell), job.build_of(run.cell), directory, sizing, configuration.flags)


def _cache(job: CellsJob, cell: Cell, configuration: Configuration) -> int:
    """Bytes of its block cache."""
    shape = job.cells.shape(cell, job.num_keys)
    return int(cell.cache * shape.data_bytes) or cache_of(configuration, shape, job.scale.cache_size)


def _configuration(job: CellsJob, cell: Cell, step: str) -> Configuration:
    """That of the cell, with the flags of the cell and of the step over its own."""
    engine = job.engine_of(cell)
    known = engine.configurations()
    one = known[cell.configuration or next(iter(known))]
    flags = {**one.flags, **cell.flags, **cell.step_flags.get(step, {})}
    return replace(one, flags=flags, direct=bool(flags.get(engine.about.direct_flag, one.direct)))


def command_of(job: CellsJob, run: CellRun, directory: Path, step: str) -> list[str]:
    """As it is run, but for its seeds: for `explain`, and to find flags that the client lacks."""
    engine, database = job.engine_of(run.cell), database_of(job, run, directory, step)
    if step in engine.workloads():
        planned = workload_job(job, run, database, step)
        return planned.command(0, Path("RUN") / engine.report_name, planned.asked_seconds)
    return database.command(step, 1 if loads(engine, step) else job.threads(run.cell, step))


def loads(engine: Engine, step: str) -> bool:
    """It makes the database, from nothing and by one thread."""
    return step == "load" or engine.step(step).creates


def _library(build: EngineBuild) -> str | None:
    """As a run records what it was asked for."""
    return None if build.library is None else build.released.get("engine_release", str(build.library))


def commands_of(job: CellsJob) -> list[tuple[str, str, list[str]]]:
    """Cell, step and command line of the first round."""
    return [
        (run.cell.name, step, command_of(job, run, job.directory(run.cell), step))
        for run in job.cells.runs(1)
        if run.turn == 1 and not job.without(run.cell)
        for step in commanded(job, run.cell)
    ] + [(cell.name, COMMAND, list(checked_command([cell.command]).argv)) for cell in job.cells.cells if cell.command]


def workload_job(job: CellsJob, run: CellRun, database: Database, step: str) -> Job:
    """A step that is a workload, as a job of `ioflame profile`."""
    assert job.recording is not None
    configuration, shape, scale = _configuration(job, run.cell, step), database.shape, job.scale
    cache = _cache(job, run.cell, configuration)
    engine = job.engine_of(run.cell)
    options = replace(
        job.options, engine=engine.name, client=run.cell.client or job.options.client, workload=step,
        threads=job.threads(run.cell, step), db_dir=database.directory, num_keys=shape.num_keys,
        configuration=configuration.name, cache_size=cache,
        memory_limit=scale.memory_limit if run.cell.limited else None,
        db_bench=str(job.build_of(run.cell).path), library=_library(job.build_of(run.cell)),
    )  # fmt: skip
    # What was asked for is asked for of each step.
    besides = () if options.collect else job.cells.observe.get(step, ())
    collect = tuple(dict.fromkeys((*scale.collect, *besides)))
    sized = structs.replace(scale, num_keys=shape.num_keys, cache_size=cache, collect=collect, named=tuple(besides))
    return Job(
        options, engine, job.build_of(run.cell), sized, Sizing(shape, cache), database.directory,
        configuration, job.recording, None,
    )  # fmt: skip


def step_seconds(engine: Engine, kind: str, step: str, shape: DatabaseShape, scale: Scale) -> float:
    """About how long a step takes, of a kind that `CellsJob.kind` names."""
    if kind == "baseline":
        return min(scale.duration, LONGEST_BASELINE_SECONDS) + 2
    if kind == "measure":
        # The engine is started for the longest warm-up there may be, and lives as long.
        return scale.warmup + (2 * len(scale.collect) + 1) * scale.duration + _MEASURE_SECONDS
    return _PREPARE_SECONDS + engine.steps()[step].rewrites * shape.data_bytes / _WRITES_PER_SECOND


def build_facts(build: EngineBuild) -> dict[str, str]:
    return {
        "version": build.version, "binary": str(build.path), "assertions": "on" if build.assertions else "off",
        "symbols": build.symbols, **build.hardware, **artifact_facts(build),
    }  # fmt: skip
