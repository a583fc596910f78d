"""Runs an experiment of cells, each run in a database of its own; what is done is kept, and not done again."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.counters import device_of
from collectors.perf import Plan, plan_recording
from folding.stackfold import stackfold_binary
from ground.errors import HostError, IoflameError, MeasurementError, UsageError
from ground.results.cells import CellOutcome, CellsRecord, CellsRun
from ground.results.run import check_writable
from ground.system.host import host_facts
from ground.system.memory_limit import limited_memory
from ground.system.process import Children
from ground.text.progress import Reporter
from ground.text.units import format_bytes
from ioflame.analysis.cells import PROOFS
from ioflame.measure.baseline import read_by_children
from ioflame.measure.builds import named_builds
from ioflame.measure.cell_engines import build_facts, driver, own_engines
from ioflame.measure.cell_steps import measure_step
from ioflame.measure.job import Job, cache_of
from ioflame.measure.options import ProfileOptions
from workloads.cells import Cell, CellRun, Cells, CellScale, older
from workloads.checks import existing, free_bytes
from workloads.database import Database, is_loaded, locked
from workloads.engine import Engine, EngineBuild
from workloads.experiment import read_cells
from workloads.scales import Scale, Sizing
from workloads.steps import Configuration

__all__ = (
    "CellsJob", "check_host", "commands_of", "conduct_cells", "refuse_others", "resolve_cells",
)  # fmt: skip

# Of the data of a cell: the files, what a compaction holds twice, and what is left to others.
_SPARE = 1 << 30
# The name of a database that all cells share, before its number of keys.
_SHARED = "shared"


@dataclass(frozen=True)
class CellsJob:
    """An experiment of cells that can be run here: nothing of it has been started.

    builds: by name, the base first; recording: how perf records a step that is a workload; None where none is
    own:    what cells run with that name an engine or a client, by both names
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
    def shares(self) -> bool:
        """All cells have one database."""
        return self.cells.layout.database == _SHARED

    def directory(self, cell: Cell) -> Path:
        """Of its database."""
        return self.place / (f"{_SHARED}-{self.num_keys}" if self.shares else cell.name)

    def threads(self, cell: Cell, step: str) -> int:
        return self.engine_of(cell).step(step).threads or cell.threads or self.options.threads

    @property
    def scale(self) -> CellScale:
        return self.cells.scale[self.options.scale]

    def plan(self) -> list[CellRun]:
        return list(self.cells.runs(self.rounds))

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
                CellOutcome(run.cell.name, run.turn, run.round, status="left out" if why else "todo", why=why)
                for run in self.plan()
                for why in [self.without(run.cell)]
            ],
            {name: build_facts(build) for name, build in self.builds.items()} if len(self.builds) > 1 else {},
        )  # fmt: skip


def resolve_cells(name: str, options: ProfileOptions, engine: Engine, rounds: int | None) -> CellsJob:
    """UsageError, HostError for what no host could run; nothing is started or written but a look at the client."""
    _refuse_what_cells_have(options)
    cells = read_cells(name, engine, tuple(PROOFS))
    if options.scale not in cells.scale:
        raise UsageError(
            f"SCALE={options.scale} is not known to {cells.name}", means="nothing was started",
            mend=f"SCALE={'|'.join(cells.scale)}",
        )  # fmt: skip
    scale = cells.scale[options.scale]
    own = own_engines(name, cells, options)
    if cells.engines:
        builds = {cell.engine: own[driver(cell)][1] for cell in cells.cells}
        cells = cells.at(options.scale)
        engine = own[driver(cells.cells[0])][0]
    else:
        builds = named_builds(engine, options.db_bench)
        cells = cells.at(options.scale).of_builds(list(builds))
    measures = any(step in engine.workloads() for cell in cells.cells for step in cells.steps_of(cell))
    recording = None
    if measures:
        stackfold_binary()
        recording = plan_recording(options.event, options.frequency, options.callgraph)
    place = options.db_dir or Path("db").absolute() / f"{engine.name}-{cells.name}"
    job = CellsJob(
        options, cells, engine, builds, options.num_keys or scale.num_keys, rounds or scale.rounds, place, recording,
        own,
    )  # fmt: skip
    for run in cells.runs(1):
        # A flag that the client lacks is refused now, and not in the middle.
        for step in cells.steps_of(run.cell) if not job.without(run.cell) else ():
            _command(job, run, place, step)
    return job


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
    if any(cell.limited for cell in cells.cells):
        with limited_memory(job.scale.memory_limit):
            pass
    needed = max(cells.shape(run.cell, job.num_keys).disk_bytes for run in cells.runs(1)) + _SPARE
    there = job.shares and is_loaded(job.directory(cells.cells[0]))
    if cells.layout.database != "none" and not there and free_bytes(place) < needed:
        raise HostError(
            f"a cell needs {format_bytes(needed)} of disk; {format_bytes(free_bytes(place))} are free for {place}",
            means="its load would fill the disk; nothing was started",
            mend="SCALE=smoke, a smaller NUM_KEYS, or DB_DIR=<a larger disk>",
        )
    device_of(existing(place))
    check_writable(job.options.out)


def _database(job: CellsJob, run: CellRun, directory: Path, step: str = "") -> Database:
    """The database of a cell, as a step of it is run on it."""
    shape, configuration = job.cells.shape(run.cell, job.num_keys), _configuration(job, run.cell, step)
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
    engine, database = job.engine_of(run.cell), _database(job, run, directory, step)
    if step in engine.workloads():
        planned = _workload(job, run, database, step)
        seeds = database.any_seeds(step, planned.options.threads)
        return planned.command(seeds, Path("RUN") / engine.report_name, planned.asked_seconds)
    threads = 1 if _loads(engine, step) else job.threads(run.cell, step)
    return database.command(step, database.any_seeds(step, threads))


def _loads(engine: Engine, step: str) -> bool:
    """It makes the database, from nothing and by one thread."""
    return step == "load" or engine.step(step).creates


def commands_of(job: CellsJob) -> list[tuple[str, str, list[str]]]:
    """Cell, step and command line of the first round."""
    return [
        (run.cell.name, step, _command(job, run, job.directory(run.cell), step))
        for run in job.cells.runs(1)
        if run.turn == 1 and not job.without(run.cell)
        for step in job.cells.steps_of(run.cell)
    ]


def conduct_cells(job: CellsJob, going: CellsRun, reporter: Reporter) -> None:
    """Runs what is not done. A cell that fails is noted with the reason, and the others go on; a full disk ends it."""
    record = going.record
    for number, (run, outcome) in enumerate(zip(job.plan(), record.runs, strict=True), start=1):
        if outcome.status in ("done", "left out"):
            continue
        reporter.line(f"run {number} of {len(record.runs)}: {run.cell.name}, round {run.round}")
        begun = time.monotonic()
        try:
            outcome.figures, outcome.runs, outcome.amiss = {}, {}, []
            outcome.commands = _one(job, run, outcome, going, reporter)
            outcome.status, outcome.why = "done", ""
        except MeasurementError as error:
            outcome.status, outcome.why = "failed", error.what.splitlines()[0]
            reporter.warn(f"{run.cell.name}: {error.what}")
        except IoflameError as error:
            outcome.status, outcome.why = "failed", error.what.splitlines()[0]
            raise
        finally:
            outcome.seconds = time.monotonic() - begun
            going.save()


def _one(job: CellsJob, run: CellRun, outcome: CellOutcome, going: CellsRun, reporter: Reporter) -> list[list[str]]:
    """Runs the steps of a cell, its figures go into the outcome, each called after its step; its command lines."""
    directory, engine, out = job.directory(run.cell), job.engine_of(run.cell), going.directory
    written = 0.0
    with locked(directory), Children() as children:
        database = _ready(job, run, directory, children, reporter, out)
        try:
            for step in job.cells.steps_of(run.cell):
                database = _database(job, run, directory, step)
                log = out / f"{run.cell.name}-{run.turn}-{step}.log"
                before = read_by_children()
                if step in engine.workloads():
                    own = measure_step(_workload(job, run, database, step), database, _run_name(out, run, step),
                                       outcome, going.record.callgraphs, reporter)  # fmt: skip
                elif _loads(engine, step):
                    text = database.load(children, reporter, log, step)
                    own = engine.figures(text, step, directory)
                else:
                    text = database.apply(step, job.threads(run.cell, step), children, reporter, log)
                    own = engine.figures(text, step, directory)
                own |= {"read_kib": (read_by_children() - before) / 1024, "num_keys": database.shape.num_keys,
                        "du_kib": sum(entry.stat().st_blocks for entry in os.scandir(directory)) // 2}  # fmt: skip
                # Half of what is written beside reads was there when the mean read came.
                share = 0.5 if engine.step(step).write_rate else 1.0
                own["keys_written"] = written + share * own.get("puts", 0.0)
                written += own.get("puts", 0.0)
                outcome.figures |= {f"{at}.{name}": value for at in (step, "last") for name, value in own.items()}
        finally:
            _keep_own_log(engine.own_log, directory, out / f"{run.cell.name}-{run.turn}.LOG")
            if not job.shares:
                database.remove()
    if not job.shares:
        shutil.rmtree(directory, ignore_errors=True)
    return [child.argv for child in children]


def _ready(job: CellsJob, run: CellRun, directory: Path, children: Children, reporter: Reporter, out: Path) -> Database:
    """The database of a cell: nothing yet where it is the cell's own, loaded where all share it."""
    database = _database(job, run, directory)
    if not job.shares:
        # What an interrupted run left is of no use to this one.
        database.remove()
        return database
    # By no cell's flags, and so with O_DIRECT: it leaves nothing in the page cache.
    plain = Database(job.engine, job.build, directory, database.shape, job.scale.cache_size)
    if not plain.check():
        plain.load(children, reporter, out / "load.log")
    return database


def _run_name(out: Path, run: CellRun, step: str) -> Path:
    """A directory for a measured step; one that an interrupted run left stays as it is."""
    stem = f"{run.cell.name}-{run.turn}-{step}"
    return next(path for n in itertools.count(1) if not (path := out / (stem if n == 1 else f"{stem}-{n}")).exists())


def _workload(job: CellsJob, run: CellRun, database: Database, step: str) -> Job:
    """A step that is a workload, as a job of `ioflame profile`."""
    assert job.recording is not None
    configuration, shape, scale = _configuration(job, run.cell, step), database.shape, job.scale
    cache = _cache(job, run.cell, configuration)
    engine = job.engine_of(run.cell)
    options = replace(
        job.options, engine=engine.name, client=run.cell.client or job.options.client, workload=step,
        threads=job.threads(run.cell, step), db_dir=database.directory, num_keys=shape.num_keys,
        cache_size=cache, memory_limit=scale.memory_limit if run.cell.limited else None,
        db_bench=str(job.build_of(run.cell).path),
    )  # fmt: skip
    sized = Scale(options.scale, scale.about, shape.num_keys, cache, scale.duration, scale.warmup, scale.collect)
    return Job(
        options, engine, job.build_of(run.cell), sized, Sizing(shape, cache, ()), database.directory,
        configuration, job.recording,
    )  # fmt: skip


def _keep_own_log(name: str, directory: Path, to: Path) -> None:
    if name and (directory / name).is_file():
        shutil.copyfile(directory / name, to)


def refuse_others(going: CellsRun, now: CellsRecord) -> None:
    """UsageError where what is still to do cannot be put into one table with what is done."""
    then = going.record
    if [(r.cell, r.turn) for r in then.runs] != [(r.cell, r.turn) for r in now.runs] or then.num_keys != now.num_keys:
        raise UsageError(
            f"{going.directory} was laid out with other cells, repeats or keys",
            means="its cells and these cannot be put into one table",
            mend="the same experiment, SCALE, REPEATS and NUM_KEYS as then, or leave --resume out",
        )
    if then.tools != now.tools or then.builds != now.builds:
        told, asked = ({**one.tools, **{n: str(facts) for n, facts in one.builds.items()}} for one in (then, now))
        named = "; ".join(f"{n}: {v} then, {asked.get(n)} now" for n, v in told.items() if v != asked.get(n))
        raise UsageError(
            f"{going.directory} was measured with another build: {named}",
            means="its cells and these cannot be put into one table",
            mend="the same DB_BENCH as then, or leave --resume out",
        )
