"""What was asked, resolved against this host: everything that can be refused is refused here."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from collectors.counters import device_of
from collectors.perf import Plan, perf_version, plan_recording
from folding.stackfold import stackfold_binary
from ground.errors import HostError, UsageError
from ground.results.checks import Verdict, render_checks, worst
from ground.results.record import SCHEMA, Expectation, RunRecord
from ground.results.run import check_writable
from ground.system.host import disk_facts, host_facts
from ground.system.memory_limit import limited_memory
from ground.text.progress import Reporter, terminal_width
from ground.text.units import format_bytes, format_count
from ioflame import __version__
from ioflame.profile.host_checks import profile_checks
from ioflame.profile.options import ProfileOptions
from workloads.artifact import artifact_facts
from workloads.checks import existing, free_bytes
from workloads.database import Database, is_loaded
from workloads.engine import Engine, EngineBuild, Tree
from workloads.registry import engine_named
from workloads.scales import Scale, Sizing, fit, scales
from workloads.steps import Configuration, DatabaseShape

__all__ = ("Job", "cache_of", "describe_database", "describe_tree", "new_record", "place", "resolve")


# Of an engine beside its block cache: memtables, indexes, stacks, code.
_ENGINE_MEMORY = 192 << 20
# A block cache that holds everything: the data, what a block adds, filters and indexes, and uneven shards.
_CACHE_TO_DATA = 1.5


@dataclass(frozen=True)
class Job:
    """A workload to be measured: nothing of it has been started yet. duration: of one window, seconds."""

    options: ProfileOptions
    engine: Engine
    build: EngineBuild
    scale: Scale
    sizing: Sizing
    db_dir: Path
    plan: Plan
    configuration: Configuration

    @property
    def duration(self) -> int:
        return self.options.duration or self.scale.duration

    @property
    def collect(self) -> tuple[str, ...]:
        """What watches, in the order of the windows."""
        return self.options.collect or self.scale.collect

    def database(self) -> Database:
        """Its database, which nobody has looked at yet."""
        sizing = self.sizing
        return Database(self.engine, self.build, self.db_dir, sizing.shape, sizing.cache_size, self.configuration.flags)

    def of(self, workload: str, threads: int) -> Job:
        """The same job with another workload and number of threads."""
        return replace(self, options=replace(self.options, workload=workload, threads=threads))


def resolve(options: ProfileOptions, reporter: Reporter, purpose: str = "", engine: Engine | None = None) -> Job:
    """The job; before anything is started or written.

    purpose: part of the default database's name; engine: one with steps of the user's own
    """
    engine = engine or engine_named(options.engine, client=options.client)
    if options.workload not in engine.workloads():
        known = engine.workloads()
        raise UsageError(
            f"WORKLOAD={options.workload} is not known to {engine.name}",
            means="nothing was started",
            mend=f"WORKLOAD={'|'.join(known)}",
        )
    if options.scale not in scales():
        raise UsageError(
            f"SCALE={options.scale} is not known", means="nothing was started", mend=f"SCALE={'|'.join(scales())}"
        )
    scale = scales()[options.scale]
    if options.configuration not in engine.configurations():
        raise UsageError(
            f"CONFIG={options.configuration} is not known to {engine.name}",
            means="nothing was started",
            mend=f"CONFIG={'|'.join(engine.configurations())}",
        )
    configuration = engine.configurations()[options.configuration]
    check_writable(options.out)
    stackfold_binary()
    binary = engine.find_binary(options.db_bench)
    with reporter.stage("check the host", 3):
        build = engine.inspect(binary)
        plan = plan_recording(options.event, options.frequency, options.callgraph)
        db_dir, sizing = place(options, configuration, scale, purpose)
        if not engine.about.block_cache:
            sizing = replace(sizing, cache_size=0, notes=())
        checks = profile_checks(plan, engine, build, db_dir)
    reporter.line("host:\n" + render_checks(checks, terminal_width(sys.stderr)))
    for note in sizing.notes:
        reporter.warn(note)
    if worst(checks) is Verdict.BLOCKED:
        blocked = [check for check in checks if check.verdict is Verdict.BLOCKED]
        raise HostError(
            "; ".join(f"{check.name}: {check.value}" for check in blocked), means=blocked[0].means, mend=blocked[0].mend
        )
    return Job(options, engine, build, scale, sizing, db_dir, plan, configuration)


def place(
    options: ProfileOptions, configuration: Configuration, scale: Scale, purpose: str = ""
) -> tuple[Path, Sizing]:
    """The database's directory, named by its size so that scales do not meet in one, and what fits there."""

    # A tree that writers change is not the one that others read.
    step = engine_named(options.engine).workloads().get(options.workload)
    own = "" if step is None or not step.changing else options.workload if step.creates else "written"

    def directory(keys: int) -> Path:
        layout = "" if configuration.block_align else "noalign"
        names = (options.engine, str(keys), layout, purpose or own)
        return options.db_dir or Path("db").absolute() / "-".join(filter(None, names))

    db_dir = directory(options.num_keys or scale.num_keys)
    sizing = fit(
        scale,
        options.num_keys,
        options.cache_size,
        where=db_dir,
        free=free_bytes(db_dir),
        loaded=is_loaded(db_dir),
        block_align=configuration.block_align,
    )
    if configuration.cached_by_engine and options.cache_size is None:
        sizing = replace(sizing, cache_size=cache_of(configuration, sizing.shape, sizing.cache_size), notes=())
    db_dir = directory(sizing.shape.num_keys)
    device_of(existing(db_dir))
    _check_memory_limit(options.memory_limit, sizing)
    return db_dir, sizing


def cache_of(configuration: Configuration, shape: DatabaseShape, cache_size: int) -> int:
    """Bytes of the block cache: `cache_size`, or what holds all of the data where the configuration wants that."""
    return int(shape.data_bytes * _CACHE_TO_DATA) if configuration.cached_by_engine else cache_size


def _check_memory_limit(limit: int | None, sizing: Sizing) -> None:
    """UsageError for one that the engine itself cannot live in, HostError where there may be none."""
    if limit is None:
        return
    least = sizing.cache_size + _ENGINE_MEMORY
    if limit < least:
        raise UsageError(
            f"MEMORY_LIMIT={format_bytes(limit)} is less than the block cache of {format_bytes(sizing.cache_size)} and "
            f"{format_bytes(_ENGINE_MEMORY)} for the rest of the engine",
            means="the kernel would kill it; nothing was started",
            mend=f"MEMORY_LIMIT={least} or more, or a smaller CACHE_SIZE",
        )
    with limited_memory(limit):
        pass


def new_record(job: Job) -> RunRecord:
    """The record of a run that has measured nothing yet."""
    step = job.engine.workloads()[job.options.workload]
    device = device_of(existing(job.db_dir))
    return RunRecord(
        schema=SCHEMA,
        ioflame=__version__,
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        workload=job.options.workload,
        engine=job.engine.name,
        threads=job.options.threads,
        options=job.options.as_text(),
        expected=Expectation(
            step.levels, step.filters, "changing" if step.changing else "unchanged", step.write_rate, step.missing_keys
        ),
        host={**host_facts(), **disk_facts(device.major, device.minor)},
        tools={
            "perf": perf_version(),
            "engine": job.build.version,
            "engine_binary": str(job.build.path),
            "engine_assertions": "yes" if job.build.assertions else "no",
            "engine_symbols": job.build.symbols,
            **artifact_facts(job.build),
        },
        missing=["windows: none was measured yet"],
    )


def describe_tree(tree: Tree) -> str:
    """`L6 8 files 333 MiB, L7 73 files 3801 MiB`: the non-empty levels."""
    return ", ".join(f"L{level.level} {level.files} files {level.mib} MiB" for level in tree.levels)


def describe_database(job: Job, tree: Tree) -> dict[str, str]:
    """The database as a run's record keeps it."""
    shape = job.sizing.shape
    levels = describe_tree(tree)
    cache = f"block cache {format_bytes(job.sizing.cache_size)}" if job.engine.about.block_cache else "no block cache"
    entries = {} if tree.memtable_entries is None else {"memtable_entries": str(tree.memtable_entries)}
    return {
        "directory": str(job.db_dir),
        "device": device_of(job.db_dir).name,
        "num_keys": str(shape.num_keys),
        "data_bytes": str(shape.data_bytes),
        "cache_size": str(job.sizing.cache_size),
        "levels": levels,
        **entries,
        "configuration": job.configuration.name,
        "cached": str(job.configuration.cached_by_engine).lower(),
        "direct": str(job.configuration.direct).lower(),
        "l0_files": str(sum(level.files for level in tree.levels if level.level == 0)),
        "description": f"{format_count(shape.num_keys)} keys, {format_bytes(shape.data_bytes)}, blocks of "
        f"{format_bytes(shape.block_size)}, {cache}, "
        f"{'O_DIRECT' if job.configuration.direct else 'buffered reads'}; {levels}",
    }
