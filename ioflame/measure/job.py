"""What was asked, resolved against this host: everything that can be refused is refused here."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.counters import device_of
from collectors.host_load import host_load
from collectors.perf import Plan, perf_version, plan_recording
from collectors.schedule import REPORT_LAG_SECONDS
from folding.stackfold import stackfold_binary
from ground.errors import HostError, UsageError
from ground.results.checks import Verdict, render_checks, worst
from ground.results.database_facts import DatabaseFacts
from ground.results.host_load import HostLoad
from ground.results.record import SCHEMA, Expectation, RunRecord
from ground.results.run import Run, check_writable
from ground.settings import Setting
from ground.system.cpus import held_on
from ground.system.host import disk_facts, host_facts
from ground.system.limits import limited_memory
from ground.system.process import Children
from ground.text.progress import Reporter, terminal_width
from ground.text.ranges import choice
from ground.text.units import format_bytes, format_count
from ioflame import __version__
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import ObserverContext
from ioflame.measure.builds import build_of, readable_by_all
from ioflame.measure.host_checks import profile_checks, tell_busy
from ioflame.measure.options import ProfileOptions
from ioflame.measure.turns import Rounds
from workloads.artifact import artifact_facts
from workloads.build import EngineBuild
from workloads.checks import existing, free_bytes
from workloads.database import Database, is_loaded
from workloads.engine import Engine, Tree
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Scale, Sizing, fit, scales
from workloads.steps import Configuration, StepParameters

if TYPE_CHECKING:
    from typing_extensions import Self

# Of an engine beside its block cache: memtables, indexes, stacks, code.
_ENGINE_MEMORY = 192 << 20
# A block cache that holds everything: the data, what a block adds, filters and indexes, and uneven shards.
_CACHE_TO_DATA = 1.5
# Beyond the windows: the folding of perf's trial, and of each observer its start, its end and waits for the report; on
# a busy host they take seconds. What they do not take is the last plain window's.
_SLACK_SECONDS = 4
_OBSERVER_SLACK_SECONDS = 6
_TURNS_SLACK_SECONDS = 0.5
# Perf's trial after the warm-up, and two further ones. Where it takes turns, fewer rounds follow instead.
_TRIAL_SECONDS, _TRIALS_SECONDS = 3, 8
# The pause in which perf's first turn is folded and shown, in no window.
_FIRST_LOOK_SECONDS = 2
# What is planned for a warm-up where rounds follow, of its bound and at least s: where it is longer there are fewer
# rounds.
_USUAL_WARM_UP, _SHORTEST_WARM_UP = 0.4, 6.0
_LATE_SECONDS = 600
# It is enough for so many who want each CPU.
_QUEUED = 2


@dataclass(frozen=True)
class Planned:
    """A workload as it would be run here: all that its command line depends on.

    duration: seconds of a window
    """

    options: ProfileOptions
    engine: Engine
    build: EngineBuild
    scale: Scale
    sizing: Sizing
    db_dir: Path
    configuration: Configuration

    @property
    def asked(self) -> dict[str, str]:
        """What was asked for, for the record of a run."""
        return self.options.as_text()

    @property
    def duration(self) -> int:
        return self.options.duration or self.scale.duration

    @property
    def collect(self) -> tuple[str, ...]:
        """What watches, in the order of the windows."""
        asked = self.options.collect or self.scale.collect
        return tuple(name for name in INSTRUMENTS if name in asked or (name == "tail" and self.options.tail))

    def is_asked(self, name: str) -> bool:
        """Whether it watches because it was named, and not by a scale's default."""
        return name in (self.options.collect or self.scale.named) or (name == "tail" and bool(self.options.tail))

    def seconds_of(self, name: str) -> int:
        """The length of that instrument's window."""
        return self.duration * INSTRUMENTS[name].times

    @property
    def watching(self) -> list[str]:
        """The instruments that have a window: not each has one where the workload writes."""
        writes = self.engine.step(self.options.workload).changing
        return [name for name in self.collect if not (writes and INSTRUMENTS[name].not_writing)]

    @property
    def in_turns(self) -> list[str]:
        """Of these, those that take turns; each of the others has a window of its own.

        Where the workload writes perf has one: the CPU of a flush or a compaction is known where it is whole in it.
        """
        alone = {"perf"} if self.engine.step(self.options.workload).changing else set()
        return [name for name in self.watching if INSTRUMENTS[name].takes_turns and name not in alone]

    @property
    def in_windows(self) -> list[str]:
        """The others, in the order in which they watch."""
        return [name for name in self.watching if name not in self.in_turns]

    @property
    def rounds(self) -> Rounds:
        return Rounds.adding_up_to(self.options.duration or self.scale.turns or self.scale.duration)

    def observer_context(self, run: Run, children: Children, plan: Plan) -> ObserverContext:
        """plan: as the trial after the warm-up left it"""
        symbols, options = self.engine.file("symbols.toml"), self.options
        return ObserverContext(
            run, children, [run.record.pid], plan, device_of(self.db_dir), symbols, options.ladder_sample, self.db_dir,
            self.engine.name, threshold_us=options.threshold_us, force=options.tail == "force",
        )  # fmt: skip

    def seconds_of_windows(self, names: Sequence[str]) -> float:
        """Of those that take no turns, with the plain ones beside them, and what starts and ends them."""
        slack = _OBSERVER_SLACK_SECONDS * self._queued
        windows = sum(self.seconds_of(name) + self.duration + slack for name in names)
        return windows + self.duration * bool(names or not self.watching)

    @property
    def usual_warm_up(self) -> float:
        """Seconds; where rounds follow it may be longer, and they fewer."""
        bound = self.scale.warmup
        return min(max(_USUAL_WARM_UP * bound, _SHORTEST_WARM_UP), bound) if self.in_turns else bound

    @property
    def _longest_warm_up(self) -> float:
        """Seconds, with perf's trial at its end."""
        tried = "perf" in self.watching and self.options.callgraph == "auto"
        return self.scale.warmup + _TRIAL_SECONDS * tried

    @property
    def lifetime(self) -> int:
        """Seconds that the engine is asked to send queries for: all windows, and what is between them.

        That takes longer where many others want the CPUs too; what it does not take is the last plain window's.
        """
        turns = self.rounds.lasting(self.in_turns) if self.in_turns else 0.0
        lasting = self.usual_warm_up + turns + self.seconds_of_windows(self.in_windows) + REPORT_LAG_SECONDS
        if "perf" in self.in_windows and self.options.callgraph == "auto":
            lasting += _TRIALS_SECONDS
        slack = _SLACK_SECONDS + len(self.in_turns) * _TURNS_SLACK_SECONDS
        if self.in_turns:
            # Fewer rounds make up for a longer warm-up, but one has to follow.
            fewer = turns - self.rounds.lasting(self.in_turns, 1)
            lasting += max(self._longest_warm_up - self.usual_warm_up - fewer, 0)
        if "perf" in self.in_turns:
            slack += _FIRST_LOOK_SECONDS
        return int(lasting + slack * self._queued)

    @functools.cached_property
    def _queued(self) -> float:
        """How many times longer than on a quiet host things take here, by the load before."""
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / _QUEUED)

    @property
    def asked_seconds(self) -> int:
        """Seconds of queries on the client's command line.

        Ours ends when it is asked to, so windows that are late have its queries too; db_bench knows its duration alone.
        """
        return self.lifetime + _LATE_SECONDS * self.engine.by_our_client

    def database(self) -> Database:
        """Its database, which nobody has looked at yet."""
        return Database(self.engine, self.build, self.db_dir, self.sizing, self.configuration.flags)

    def command(self, seed: int, report: Path, seconds: int, before: Sequence[str] = ()) -> list[str]:
        """The command line of the workload, of every run and of `explain`.

        seed: the first of its threads'; report: the file of its queries by second; seconds: that it sends them for
        before: the words before the client
        """
        options = self.options
        parameters = StepParameters(
            self.sizing, self.db_dir, options.threads, seed, seconds, report, self.configuration.flags,
            options.cache_type,
        )  # fmt: skip
        return held_on(options.cpus, [*before, *self.engine.command(self.build, options.workload, parameters)])

    def of(self, workload: str, threads: int) -> Self:
        """The same with another workload and number of threads."""
        return replace(self, options=replace(self.options, workload=workload, threads=threads))


@dataclass(frozen=True)
class Job(Planned):
    """A workload to be measured: nothing of it has been started yet.

    plan: how perf records it; host_load: what others did meanwhile, None where that was not looked at
    """

    plan: Plan
    host_load: HostLoad | None


def planned(
    options: ProfileOptions, purpose: str = "", engine: Engine | None = None, reporter: Reporter | None = None
) -> Planned:
    """What was asked, on this host's disk and with its client, whether or not the host can measure it.

    purpose: part of the default database's name; engine: one with steps of the user's own
    """
    engine = engine or engine_named(options.engine, client=options.client)
    choice(Setting.WORKLOAD, options.workload, engine.workloads(), engine.name)
    scale = scale_of(options)
    configuration = engine.configuration(options.configuration)
    build = build_of(engine, options, reporter)
    engine.refuse_lacking(build, options.workload)
    db_dir, sizing = place(options, engine, configuration, scale, purpose)
    return Planned(options, engine, build, scale, sizing, db_dir, configuration)


def scale_of(options: ProfileOptions) -> Scale:
    """UsageError for one that is not known."""
    known = scales()
    return known[choice(Setting.SCALE, options.scale, known)]


def resolve(options: ProfileOptions, reporter: Reporter, purpose: str = "", engine: Engine | None = None) -> Job:
    """The job, on a host that can measure it; before anything is started or written."""
    check_writable(options.out)
    stackfold_binary()
    return on_this_host(planned(options, purpose, engine, reporter), reporter)


def on_this_host(what: Planned, reporter: Reporter) -> Job:
    """HostError where it cannot be measured here."""
    options = what.options
    with reporter.stage("check the host", 4):
        if options.memory_limit is not None:
            with limited_memory(options.memory_limit):
                pass
        plan = plan_recording(options.event, options.frequency, options.callgraph)
        checks = profile_checks(plan, what.engine, what.build, what.db_dir)
        load = host_load(device_of(existing(what.db_dir)))
    reporter.line("host:\n" + render_checks(checks, terminal_width(sys.stderr)))
    for note in what.sizing.notes:
        reporter.warn(note)
    if worst(checks) is Verdict.BLOCKED:
        blocked = [check for check in checks if check.verdict is Verdict.BLOCKED]
        raise HostError(
            "; ".join(f"{check.name}: {check.value}" for check in blocked), means=blocked[0].means, mend=blocked[0].mend
        )
    tell_busy(load, reporter)
    return Job(**vars(what), plan=plan, host_load=load)


def place(
    options: ProfileOptions, engine: Engine, configuration: Configuration, scale: Scale, purpose: str = ""
) -> tuple[Path, Sizing]:
    """The database's directory, named by its size so that scales do not meet in one, and what fits there."""

    # A tree that writers change is not the one that others read.
    step = engine.workloads().get(options.workload)
    own = "" if step is None or not step.changing else options.workload if step.creates else "written"

    def directory(keys: int) -> Path:
        layout = "" if configuration.block_align else "noalign"
        # Its tables are of a format that every release reads.
        read_by = "releases" if options.library is not None else ""
        names = (options.engine, str(keys), layout, read_by, configuration.compression, purpose or own)
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
        cache_to_data=_cache_to_data(engine, configuration),
    )
    shape = readable_by_all(engine, options, sizing.shape)
    sizing = replace(sizing, shape=replace(shape, compression=configuration.compression or shape.compression))
    db_dir = directory(sizing.shape.num_keys)
    device_of(existing(db_dir))
    _check_memory_limit(options.memory_limit, sizing)
    return db_dir, sizing


def _cache_to_data(engine: Engine, configuration: Configuration) -> float | None:
    """The block cache as a multiple of the data, where engine and configuration say what it is."""
    if not engine.about.block_cache:
        return 0.0
    return _CACHE_TO_DATA if configuration.cached_by_engine else None


def cache_of(configuration: Configuration, shape: DatabaseShape, cache_size: int) -> int:
    """Bytes of the block cache: `cache_size`, or what holds all of the data where the configuration wants that."""
    return int(shape.data_bytes * _CACHE_TO_DATA) if configuration.cached_by_engine else cache_size


def _check_memory_limit(limit: int | None, sizing: Sizing) -> None:
    """UsageError for one that the engine itself cannot live in."""
    if limit is None:
        return
    least = sizing.cache_size + _ENGINE_MEMORY
    if limit < least:
        raise UsageError(
            f"{Setting.MEMORY_LIMIT.to(format_bytes(limit))} is less than the block cache of "
            f"{format_bytes(sizing.cache_size)} and "
            f"{format_bytes(_ENGINE_MEMORY)} for the rest of the engine",
            means="the kernel would kill it; nothing was started",
            mend=f"{Setting.MEMORY_LIMIT.to(least)} or more, or a smaller {Setting.CACHE_SIZE}",
        )


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
        options=job.asked,
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
        host_load=job.host_load,
    )


def describe_tree(tree: Tree) -> str:
    """`L6 8 files 333 MiB, L7 73 files 3801 MiB`: the non-empty levels."""
    return ", ".join(f"L{level.level} {level.files} files {level.mib} MiB" for level in tree.levels)


def describe_database(job: Planned, tree: Tree) -> DatabaseFacts:
    """The database as a run's record keeps it."""
    shape = job.sizing.shape
    levels = describe_tree(tree)
    cache = f"block cache {format_bytes(job.sizing.cache_size)}" if job.engine.about.block_cache else "no block cache"
    return DatabaseFacts(
        directory=str(job.db_dir),
        device=device_of(job.db_dir).name,
        num_keys=shape.num_keys,
        data_bytes=shape.data_bytes,
        cache_size=job.sizing.cache_size,
        levels=levels,
        memtable_entries=tree.memtable_entries,
        configuration=job.configuration.name,
        cached=job.configuration.cached_by_engine,
        direct=job.configuration.direct,
        l0_files=sum(level.files for level in tree.levels if level.level == 0),
        description=f"{format_count(shape.num_keys)} keys, {format_bytes(shape.data_bytes)}, blocks of "
        f"{format_bytes(shape.block_size)}, {cache}, "
        f"{'O_DIRECT' if job.configuration.direct else 'buffered reads'}; {levels}",
    )
