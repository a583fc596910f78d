"""An experiment of cells as it would be run here: everything that can be refused is refused here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from collectors.counters import device_of
from collectors.perf import Plan, plan_recording
from folding.stackfold import stackfold_binary
from ground.errors import HostError, UsageError
from ground.results.cells import CellOutcome, CellsRecord
from ground.results.run import check_writable
from ground.settings import Setting
from ground.system.host import host_facts
from ground.system.memory_limit import limited_memory
from ground.system.process import tool_path
from ground.text.progress import Reporter
from ground.text.units import format_bytes
from ioflame.analysis.cells import PROOFS
from ioflame.measure.builds import named_builds, readable_by_all
from ioflame.measure.cell_engines import build_facts, driver, own_engines
from ioflame.measure.estimate import plan_lines
from ioflame.measure.job import Job, Planned, cache_of, planned, resolve
from ioflame.measure.options import ProfileOptions
from ioflame.measure.own_command.command_words import checked_command
from workloads.build import EngineBuild
from workloads.cells import BASELINE, COMMAND, Cell, CellRun, Cells, CellScale
from workloads.checks import existing, free_bytes
from workloads.database import Database, is_loaded
from workloads.engine import Engine
from workloads.experiment import read_cells
from workloads.libraries import asked_libraries
from workloads.registry import engine_named
from workloads.releases import older
from workloads.scales import Scale, Sizing
from workloads.steps import Configuration

# Of the data of a cell: the files, what a compaction holds twice, and what is left to others.
_SPARE = 1 << 30
# The name of a database that all cells share, before its number of keys.
_SHARED = "shared"


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
    def told_beforehand(self) -> bool:
        """Whether it is said before the first step what all of them take: one tree is grown, or builds take turns."""
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
        """What it takes, but for the runs of cells that are done."""
        measured = {*self.engine.workloads(), COMMAND}
        steps = [
            ("baseline" if step == BASELINE else "measure" if step in measured else "prepare", step)
            for run in self.plan() if (run.cell.name, run.turn) not in done
            for step in self.cells.steps_of(run.cell)
        ]  # fmt: skip
        first, scale = self.cells.cells[0], self.scale
        cache = _cache(self, first, _configuration(self, first, ""))
        shape = self.cells.shape(first, self.num_keys)
        return plan_lines(self.engine, steps, shape, cache, scale.duration, scale.warmup, len(scale.collect))

    @property
    def scale(self) -> CellScale:
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


def resolve_cells(
    name: str, options: ProfileOptions, engine: Engine, rounds: int | None, users: Sequence[int] = (1,),
    reporter: Reporter | None = None,
) -> CellsJob:  # fmt: skip
    """UsageError, HostError for what no host could run; nothing is started or written but a look at the client.

    users: threads of each cell, where the file has no scale; such a one is held against this host for a `reporter`
    """
    cells = read_cells(name, engine, tuple(PROOFS))
    place = options.db_dir or Path("db").absolute() / f"{engine.name}-{cells.name}"
    notes: list[str] = []
    if cells.scale:
        _refuse_what_cells_have(options)
    else:
        options = _with_perf(options)
        if options.library is not None:
            # One tree is grown for all, by the first.
            options = replace(options, library=asked_libraries(engine.releases(), [options.library])[0].what)
        plan = resolve(options, reporter, cells.name, engine) if reporter else planned(options, cells.name, engine)
        cells, place = _as_profile(cells, plan).of_users(users), plan.db_dir
        notes = [f"{plan.configuration.name}: {plan.configuration.about}", *plan.sizing.notes]
    if options.scale not in cells.scale:
        raise UsageError(
            f"{Setting.SCALE.to(options.scale)} is not known to {cells.name}", means="nothing was started",
            mend=Setting.SCALE.to("|".join(cells.scale)),
        )  # fmt: skip
    scale = cells.scale[options.scale]
    _refuse_library(cells, options)
    own = own_engines(name, cells, options)
    if cells.engines:
        builds = {cell.engine: own[driver(cell)][1] for cell in cells.cells}
        cells = cells.at(options.scale)
        engine = own[driver(cells.cells[0])][0]
    else:
        builds = named_builds(engine, options.db_bench, options.library, reporter)
        # A single build needs no name.
        builds = builds if len(builds) > 1 else {"": next(iter(builds.values()))}
        cells = cells.at(options.scale).of_builds(list(builds))
    if cells.layout.database == "grown" and len(builds) > 1:
        raise UsageError(f"{cells.name} has one tree, which one build makes", mend=Setting.DB_BENCH.to("<one client>"))
    measures = any(step in (*engine.workloads(), COMMAND) for cell in cells.cells for step in cells.steps_of(cell))
    recording = None
    if measures:
        stackfold_binary()
        recording = plan_recording(options.event, options.frequency, options.callgraph)
    keys = scale.num_keys if cells.layout.database == "grown" else options.num_keys or scale.num_keys
    job = CellsJob(options, cells, engine, builds, keys, rounds or scale.rounds, place, recording, own, notes)
    _check_commands(cells, builds)
    for run in cells.runs(1):
        # A flag that the client lacks is refused now, and not in the middle.
        for step in commanded(job, run.cell) if not job.without(run.cell) else ():
            _command(job, run, place, step)
    return job


def _check_commands(cells: Cells, builds: Mapping[str, EngineBuild]) -> None:
    """UsageError for a command that cannot be started, or where several builds would run the same."""
    for cell in (cell for cell in cells.cells if cell.command):
        checked_command([cell.command])
        if len(builds) > 1:
            raise UsageError(
                f"cell {cell.name} is a command, which names its own program",
                means=f"each of {len(builds)} builds would run the same; nothing was started",
                mend="a cell for each program",
            )


def _refuse_library(cells: Cells, options: ProfileOptions) -> None:
    """UsageError where cells name the engines or clients that they are run with."""
    if options.library is not None and any(any(driver(cell)) for cell in cells.cells):
        raise UsageError(
            f"{Setting.ROCKSDB.to(options.library)} has no effect on {cells.name}, whose cells name their own clients",
            means="nothing was started",
            mend=f"leave {Setting.ROCKSDB} out, or another experiment of `ioflame list`",
        )


def commanded(job: CellsJob, cell: Cell) -> list[str]:
    """The steps of a cell that the engine's client runs."""
    return [step for step in job.cells.steps_of(cell) if step not in (BASELINE, COMMAND)]


def _as_profile(cells: Cells, plan: Planned) -> Cells:
    """With the scale, the options and the configuration of `ioflame profile`."""
    limit = plan.options.memory_limit
    scale = CellScale(plan.scale.about, plan.sizing.shape.num_keys, 1, plan.sizing.cache_size, limit or 0,
                      plan.duration, plan.scale.warmup, plan.collect)  # fmt: skip
    every = [
        structs.replace(cell, configuration=cell.configuration or plan.configuration.name, limited=limit is not None)
        for cell in cells.cells
    ]
    layout = structs.replace(cells.layout, block_align=plan.configuration.block_align)
    return structs.replace(cells, cells=every, layout=layout, scale={plan.options.scale: scale})


def _with_perf(options: ProfileOptions) -> ProfileOptions:
    """The options where the scales are a profile's. UsageError for those that the steps name themselves."""
    if options.threads != 1:
        raise UsageError(
            f"{Setting.THREADS.to(options.threads)} has no effect on an experiment whose cells run with each number of "
            f"{Setting.USERS}",
            means="nothing was started",
            mend=Setting.USERS.to(options.threads),
        )
    if options.workload != next(iter(engine_named(options.engine).workloads())):
        raise UsageError(
            f"{Setting.WORKLOAD.to(options.workload)} has no effect on an experiment, whose steps name their own",
            means="nothing was started",
            mend=f"leave {Setting.WORKLOAD} out, or name another experiment of `ioflame list`",
        )
    # The tables are of perf's shares; what else watches is for who asks for it, at the price of its windows.
    return replace(options, collect=tuple(dict.fromkeys(("perf", *(options.collect or ())))))


def _refuse_what_cells_have(options: ProfileOptions) -> None:
    for name in ("DURATION", "CACHE_SIZE", "COLLECT", "MEMORY_LIMIT"):
        if getattr(options, name.lower()) is not None:
            raise UsageError(
                f"{name} has no effect on an experiment of cells, whose file has what each runs with",
                means="nothing was started",
                mend=f"leave {name} out, or change a copy of the experiment's file",
            )


def check_host(job: CellsJob) -> None:
    """HostError where this host lets nobody limit memory or lacks the disk; UsageError where OUT cannot be written."""
    cells, place = job.cells, job.place
    if any(BASELINE in cells.steps_of(cell) for cell in cells.cells):
        tool_path("fio", "fio")
    if any(cell.limited for cell in cells.cells):
        with limited_memory(job.scale.memory_limit):
            pass
    needed = max(cells.shape(run.cell, job.num_keys).disk_bytes for run in cells.runs(1)) + _SPARE
    there = job.shares and is_loaded(job.directory(cells.cells[0]))
    if cells.layout.database != "none" and not there and free_bytes(place) < needed:
        raise HostError(
            f"a cell needs {format_bytes(needed)} of disk; {format_bytes(free_bytes(place))} are free for {place}",
            means="its load would fill the disk; nothing was started",
            mend=f"{Setting.SCALE.to('smoke')}, a smaller {Setting.NUM_KEYS}, or "
            + Setting.DB_DIR.to("<a larger disk>"),
        )
    device_of(existing(place))
    check_writable(job.options.out)


def database_of(job: CellsJob, run: CellRun, directory: Path, step: str = "") -> Database:
    """The database of a cell, as a step of it is run on it."""
    shape = readable_by_all(job.engine, job.options, job.cells.shape(run.cell, job.num_keys))
    configuration = _configuration(job, run.cell, step)
    cache = _cache(job, run.cell, configuration)
    return Database(job.engine_of(run.cell), job.build_of(run.cell), directory, shape, cache, configuration.flags)


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


def _command(job: CellsJob, run: CellRun, directory: Path, step: str) -> list[str]:
    """As it is run, but for its seeds: for `explain`, and to find flags that the client lacks."""
    engine, database = job.engine_of(run.cell), database_of(job, run, directory, step)
    if step in engine.workloads():
        planned = workload_job(job, run, database, step)
        seeds = database.any_seeds(step, planned.options.threads)
        return planned.command(seeds, Path("RUN") / engine.report_name, planned.asked_seconds)
    threads = 1 if loads(engine, step) else job.threads(run.cell, step)
    return database.command(step, database.any_seeds(step, threads))


def loads(engine: Engine, step: str) -> bool:
    """It makes the database, from nothing and by one thread."""
    return step == "load" or engine.step(step).creates


def _library(build: EngineBuild) -> str | None:
    """As a run records what it was asked for."""
    return None if build.library is None else build.released.get("engine_release", str(build.library))


def commands_of(job: CellsJob) -> list[tuple[str, str, list[str]]]:
    """Cell, step and command line of the first round."""
    return [
        (run.cell.name, step, _command(job, run, job.directory(run.cell), step))
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
    sized = Scale(
        options.scale, scale.about, shape.num_keys, cache, scale.duration, scale.warmup, collect, tuple(besides)
    )
    return Job(
        options, engine, job.build_of(run.cell), sized, Sizing(shape, cache, ()), database.directory,
        configuration, job.recording,
    )  # fmt: skip
