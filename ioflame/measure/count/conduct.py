"""Runs the counts: several programs at once, for load changes no count. Each works on a fresh copy of its tree.

What could change a count besides the engine's code is the same in all: the words of the command line and the paths in
it, which are relative to a directory of the count's own, and the environment.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from collectors.callgrind import probed_by_others
from folding.callgrind import Counts
from ground.errors import MeasurementError
from ground.results.counted import TREES, Category, Counted, CountRun, Event, OfOperation
from ground.system.atomic_files import file_sha256
from ground.system.process import Child, Children, capture
from ground.text.progress import Reporter
from ioflame.measure.count.plan import PlannedCount
from workloads.build import EngineBuild
from workloads.clones import clone
from workloads.counted_operations import CountedOperation
from workloads.our_client import closing_line
from workloads.registry import rules_named
from workloads.releases import version_number

# Names within the directory of a count.
_DATABASE, _LIBRARY, _LOG = "db", "engine.so", "log"
_LOAD_SECONDS = 600
_LOOK_SECONDS = 0.2
_LOG_END = 400


@dataclass(frozen=True)
class _Program:
    """One count of an operation.

    turn:  which padding; one more than there are counts the first again
    place: its directory, of names of one length, for paths are on the stacks of the programs
    """

    plan: PlannedCount
    operation: CountedOperation
    arm: str
    build: EngineBuild
    turn: int
    place: Path

    @property
    def what(self) -> str:
        return f"{self.operation.name} of {self.arm} {self.plan.counter.under}"

    @property
    def words(self) -> list[str]:
        """Of the client."""
        library = [f"--library=./{_LIBRARY}"] if self.build.library else []
        return [
            str(self.build.path), f"--engine={self.plan.engine.name}", *library, f"--db={_DATABASE}", "--counted=1",
            *self.plan.counter.words, *self.plan.counted.operation_words(self.operation), *_readable_by_all(self.plan),
        ]  # fmt: skip

    def start(self, tree: Path | None, children: Children) -> Child:
        plan, place = self.plan, self.place
        place.mkdir(parents=True)
        if tree is not None:
            # Not linked: LMDB writes into its file.
            clone(plan.engine, tree, place / _DATABASE, link=False)
        if self.build.library:
            (place / _LIBRARY).symlink_to(self.build.library)
        padding = plan.paddings[self.turn % len(plan.paddings)]
        argv = plan.counter.argv(self.words, place, padding, plan.preload)
        return children.start(f"count {self.operation.name}", argv, stdout=place / _LOG)

    def read(self, child: Child, arm: Counted, folded: Path) -> None:
        """What it counted, into `arm`; its stacks, of the first turn, into the file `folded`."""
        plan, operation = self.plan, self.operation
        log = (self.place / _LOG).read_text(encoding="utf-8", errors="replace")
        if child.returncode:
            raise failed(self.what, child, log)
        rules = rules_named(plan.engine.name).categories
        folded.parent.mkdir(exist_ok=True)
        operations = operation.operations or self._operations(log)
        counts = plan.counter.counts(self.place, log, operation, rules, folded if self.turn == 0 else None)
        arm.stored = sum(file.stat().st_size for file in (self.place / _DATABASE).glob(plan.engine.about.data_files))
        keep(arm, counts, operations, self.turn, len(plan.paddings))
        shutil.rmtree(self.place)

    def _operations(self, log: str) -> int:
        closing = closing_line(log, self.operation.counted_benchmark)
        if closing is None or not closing["counted"]:
            raise MeasurementError(f"{self.what} printed no counts: {log[-_LOG_END:].strip()}")
        return int(closing["operations"]) * int(closing["phases"])


def count(plan: PlannedCount, study: CountRun, reporter: Reporter, earlier: Path | None = None) -> None:
    """Counts everything. MeasurementError where a program failed; what was counted before is kept.

    study:   with the record of the plan, which is filled
    earlier: the directory of a count whose trees are taken, as far as it kept them
    """
    record, directory = study.record, study.directory
    begun, work = time.monotonic(), study.directory / "work"
    places = (work / f"{number:04d}" for number in itertools.count())
    try:
        with Children() as children:
            trees = _trees(plan, directory / TREES, earlier / TREES if earlier else None, reporter)
            record.trees = {name: _id_of(plan, tree) for name, tree in trees.items()}
            for operation in plan.operations:
                lacks = {name: _lacking(operation, build) for name, build in plan.builds.items()}
                programs = [
                    _Program(plan, operation, name, build, turn, next(places))
                    for name, build in plan.builds.items() if not lacks[name]
                    for turn in range(len(plan.paddings) + 1)
                ]  # fmt: skip
                title = plan.engine.about.title
                arms = {name: Counted(lacks=f"{title} has it since {since}" if since else "")
                        for name, since in lacks.items()}  # fmt: skip
                record.operations[operation.name] = OfOperation(
                    operation.about, operation.per, operation.view, arms, operation.repeats_within
                )
                record.commands[operation.name] = " ".join(programs[0].words) if programs else ""
                at_once = min(plan.at_once, len(programs))
                with reporter.stage(f"count {operation.name}: {len(programs)} programs, {at_once} at once"):
                    for child, program in _ended(programs, trees.get(operation.tree), plan.at_once, children):
                        program.read(child, arms[program.arm], directory / operation.name / f"{program.arm}.folded")
                record.seconds = time.monotonic() - begun
                study.save()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _ended(
    programs: Iterable[_Program], tree: Path | None, at_once: int, children: Children
) -> Iterator[tuple[Child, _Program]]:
    """Each as it ends; as many at once as there may be."""
    waiting, running = deque(programs), list[tuple[Child, _Program]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            program = waiting.popleft()
            running.append((program.start(tree, children), program))
        running[0][0].wait(_LOOK_SECONDS)
        ended = [one for one in running if not one[0].running]
        running = [one for one in running if one not in ended]
        yield from ended


def _lacking(operation: CountedOperation, build: EngineBuild) -> str:
    """The version since which the engine has what the operation needs; "" where this build has it."""
    found = (since for lacking, since in build.lacks.items() if operation.counted_benchmark.startswith(lacking))
    return next(found, "")


def _trees(plan: PlannedCount, kept: Path, earlier: Path | None, reporter: Reporter) -> dict[str, Path]:
    """Those of an earlier count, or loaded by the oldest build, which the others can read."""
    oldest = min(plan.builds.values(), key=lambda build: version_number(build.version))
    found = {}
    kept.mkdir()
    for name in dict.fromkeys(one.tree for one in plan.operations if one.tree):
        found[name] = kept / name
        if earlier is not None and (earlier / name).is_dir():
            clone(plan.engine, earlier / name, kept / name, link=False)
            continue
        with reporter.stage(f"load the tree {name} ({plan.engine.about.title} {oldest.version})"):
            words = [*plan.counted.tree_words(name), *_readable_by_all(plan), f"--db={kept / name}"]
            library = [f"--library={oldest.library}"] if oldest.library else []
            argv = [str(oldest.path), f"--engine={plan.engine.name}", *library, *words]
            capture(argv, timeout=_LOAD_SECONDS).require(f"loading the tree {name}")
    return found


def _id_of(plan: PlannedCount, tree: Path) -> str:
    """Of the data: the same of a copy."""
    files = sorted(tree.glob(plan.engine.about.data_files))
    return hashlib.sha256("".join(map(file_sha256, files)).encode()).hexdigest()[:16]


def _readable_by_all(plan: PlannedCount) -> list[str]:
    tree = plan.engine.releases().tree if plan.options.libraries else {}
    return [f"--{name}={value}" for name, value in tree.items()]


def failed(what: str, child: Child, log: str, mend: str = "") -> MeasurementError:
    """Of a counted program that ended badly. log: what it printed; mend: where nothing better is known"""
    if "unhandled instruction" in log:
        return MeasurementError(
            f"{what}: {child.describe_end()}; it has instructions that valgrind does not know",
            means="valgrind knows none of AVX-512: a build for this processor alone cannot be counted",
            mend="a build without -march=native (RocksDB: PORTABLE=1)",
        )
    means, probed = probed_by_others(child)
    return MeasurementError(
        f"{what}: {child.describe_end()}; it ended with: {log[-_LOG_END:].strip()}", means=means, mend=probed or mend
    )


def keep(counted: Counted, counts: Counts, operations: int, turn: int, paddings: int) -> None:
    """turn: the place of its padding; `paddings` for the first again"""
    counted.operations = operations
    if turn == paddings:
        counted.again = counts.events[Event.INSTRUCTIONS]
        return
    for event, count in counts.events.items():
        counted.events.setdefault(event, [0] * paddings)[turn] = count
    for view, rows in counts.views.items():
        kept = counted.views.setdefault(view, [Category(row.name, row.label) for row in rows])
        for row, category in zip(rows, kept, strict=True):
            for event, count in row.events.items():
                category.events.setdefault(event, [0] * paddings)[turn] = count
