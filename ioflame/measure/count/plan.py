"""What is to be counted: arms, operations, and what each needs of this host. Nothing is started but what asks them."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from collectors.repeatable import ALLOCATORS, allocator_library, allocator_package
from ground.errors import HostError, UsageError
from ground.results.counted import BASELINE, CountedArm, CountRecord, CountRun
from ground.settings import Setting
from ground.system.binaries import built_binary
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.measure.builds import named_builds
from ioflame.measure.count.counters import BACKENDS, Counter
from ioflame.measure.study import differing, refuse_equal
from workloads.artifact import artifact_facts
from workloads.build import EngineBuild
from workloads.counted_operations import CountedOperation, CountedPlan, counted_plan
from workloads.engine import OUR_CLIENT, Engine
from workloads.registry import engine_named

# Bytes by which the environments of the repetitions differ: a stack is aligned to 16, a page has 4096.
PADDINGS = (0, 1024, 2064, 3088, 4080)


@dataclass(frozen=True)
class CountOptions:
    """clients, libraries: as of a profile, several by commas; operations: none for all of them

    repeats: how many paddings; jobs: how many programs run at once; None for one a CPU; by: who counts
    """

    engine: str
    clients: str | None = None
    libraries: str | None = None
    operations: Sequence[str] = ()
    allocator: str = ALLOCATORS[0]
    repeats: int = len(PADDINGS)
    jobs: int | None = None
    by: str = "callgrind"


@dataclass(frozen=True)
class PlannedCount:
    """builds: by the arm's name, the base first; facts: what a run records of each; preload: of the allocator"""

    options: CountOptions
    engine: Engine
    builds: dict[str, EngineBuild]
    facts: dict[str, dict[str, str]]
    counted: CountedPlan
    operations: list[CountedOperation]
    preload: Path | None
    counter: Counter

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.operations]

    @property
    def place(self) -> str:
        """In the name of its directory."""
        return self.engine.name

    @property
    def at_once(self) -> int:
        return self.counter.at_once or self.options.jobs or len(os.sched_getaffinity(0))

    @property
    def paddings(self) -> Sequence[int]:
        return PADDINGS[: self.options.repeats]

    def record(self) -> CountRecord:
        """Of a count that has counted nothing yet."""
        arms = [CountedArm(name, build.version, self.facts[name]) for name, build in self.builds.items()]
        client = next(iter(self.builds.values())).path
        return CountRecord(
            __version__,
            time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            self.engine.name,
            self.counter.depends_on(client, self.options.allocator),
            list(self.paddings),
            arms,
        )


def planned_count(options: CountOptions, reporter: Reporter) -> PlannedCount:
    """UsageError, HostError for what cannot be counted."""
    engine = engine_named(options.engine, client=OUR_CLIENT)
    # What is quickly seen to be wrong, before a release is fetched.
    first, *_ = counted_plan(engine.name, engine.file(".")).of(options.operations)
    check_installed(options.by, options.allocator)
    BACKENDS[options.by](built_binary("ioflame-client"), first.counted_benchmark)
    return planned_of(options, engine, named_builds(engine, options.clients, options.libraries, reporter))


def check_installed(by: str, allocator: str) -> None:
    """HostError that names all that is missing; asked before anything is fetched."""
    tools = ["valgrind"] if by == "callgrind" and shutil.which("valgrind") is None else []
    missing = [*tools, *filter(None, [allocator_package(allocator)])]
    if missing:
        other = ", or --allocator libc" if not tools else ""
        raise HostError(
            f"a count needs {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed",
            means="nothing was fetched or started; with libc's allocator counts differ by what was freed before",
            mend=shlex.join(["sudo", "apt-get", "install", *missing]) + other,
        )


def planned_of(options: CountOptions, engine: Engine, builds: dict[str, EngineBuild]) -> PlannedCount:
    """Of builds that are known; `engine` is one that our client drives."""
    counted = counted_plan(engine.name, engine.file("."))
    operations = counted.of(options.operations)
    counter = BACKENDS[options.by](next(iter(builds.values())).path, operations[0].counted_benchmark)
    preload = allocator_library(options.allocator)
    facts = {name: artifact_facts(build) for name, build in builds.items()}
    refuse_equal({name: one["engine_artifact"] for name, one in facts.items()}, f"another build in {Setting.ROCKSDB}")
    return PlannedCount(options, engine, builds, facts, counted, operations, preload, counter)


@dataclass(frozen=True)
class Baseline:
    """The first arm of an earlier count. directory: that may have kept its trees"""

    record: CountRecord
    directory: Path

    def other_trees(self, record: CountRecord) -> list[str]:
        """Of `record`, those that are not the baseline's."""
        return [name for name, tree in record.trees.items() if self.record.trees.get(name, tree) != tree]

    def before(self, record: CountRecord) -> CountRecord:
        """`record` with the baseline's arm before its own; operations that only one of them has stay the one's."""
        first = self.record.arms[0]
        operations = {}
        for name, found in record.operations.items():
            earlier = self.record.operations.get(name)
            both = {BASELINE: earlier.arms[first.name], **found.arms} if earlier else found.arms
            operations[name] = msgspec.structs.replace(found, arms=both)
        arms = [msgspec.structs.replace(first, name=BASELINE), *record.arms]
        return replace(record, arms=arms, operations=operations)


def with_baseline(path: Path, record: CountRecord) -> Baseline:
    """UsageError where the count at `path` depends on other things than `record` does."""
    study = CountRun.open(path)
    if words := differing(study.identity(study.record), study.identity(record)):
        raise UsageError(
            f"--baseline {path} was counted with something else: {words}",
            means="the difference would be of these as well; nothing was started",
            mend=f"count the base here, beside the new one: {Setting.ROCKSDB.to('<base>,<new>')}",
        )
    return Baseline(study.record, study.directory)
