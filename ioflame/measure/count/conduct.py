"""Runs the counts: several programs at once, for load changes no count. Each works on a fresh copy of its tree.

What could change a count besides the engine's code is the same in all: the words of the command line and the paths in
it, which are relative to a directory of the count's own, and the environment.
"""

from __future__ import annotations

import hashlib
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
class _Task:
    """One count. turn: which padding; one more than there are counts the first again"""

    number: int
    operation: CountedOperation
    arm: str
    build: EngineBuild
    turn: int


@dataclass(frozen=True)
class _Ended:
    task: _Task
    operations: int
    counts: Counts
    stored: int


def count(plan: PlannedCount, study: CountRun, reporter: Reporter, earlier: Path | None = None) -> None:
    """Counts everything. MeasurementError where a program failed; what was counted before is kept.

    study:   with the record of the plan, which is filled
    earlier: the directory of a count whose trees are taken, as far as it kept them
    """
    record, directory = study.record, study.directory
    begun, work = time.monotonic(), study.directory / "work"
    try:
        with Children() as children:
            trees = _trees(plan, directory / TREES, earlier / TREES if earlier else None, reporter)
            record.trees = {name: _id_of(plan, tree) for name, tree in trees.items()}
            work.mkdir()
            numbers = iter(range(10_000))
            for operation in plan.operations:
                tasks = list(_tasks(plan, operation, numbers))
                found = OfOperation(
                    operation.about, operation.per, operation.view, repeats_within=operation.repeats_within
                )
                found.arms = {name: _empty(plan, operation, build) for name, build in plan.builds.items()}
                record.operations[operation.name] = found
                record.commands[operation.name] = " ".join(_argv(plan, tasks[0])) if tasks else ""
                at_once = min(plan.at_once, len(tasks))
                with reporter.stage(f"count {operation.name}: {len(tasks)} programs, {at_once} at once"):
                    for ended in _run(plan, tasks, trees, work, directory, children):
                        arm = found.arms[ended.task.arm]
                        arm.stored = ended.stored
                        keep(arm, ended.counts, ended.operations, ended.task.turn, len(plan.paddings))
                record.seconds = time.monotonic() - begun
                study.save()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _empty(plan: PlannedCount, operation: CountedOperation, build: EngineBuild) -> Counted:
    since = _lacking(operation, build)
    return Counted(lacks=f"{plan.engine.about.title} has it since {since}" if since else "")


def _lacking(operation: CountedOperation, build: EngineBuild) -> str:
    """The version since which the engine has what the operation needs; "" where this build has it."""
    found = (since for lacking, since in build.lacks.items() if operation.counted_benchmark.startswith(lacking))
    return next(found, "")


def _tasks(plan: PlannedCount, operation: CountedOperation, numbers: Iterator[int]) -> Iterator[_Task]:
    for name, build in plan.builds.items():
        if not _lacking(operation, build):
            for turn in range(len(plan.paddings) + 1):
                yield _Task(next(numbers), operation, name, build, turn)


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


def _argv(plan: PlannedCount, task: _Task) -> list[str]:
    library = [f"--library=./{_LIBRARY}"] if task.build.library else []
    words = plan.counted.operation_words(task.operation)
    return [
        str(task.build.path), f"--engine={plan.engine.name}", *library, f"--db={_DATABASE}", "--counted=1",
        *plan.counter.words, *words, *_readable_by_all(plan),
    ]  # fmt: skip


def _run(
    plan: PlannedCount, tasks: Iterable[_Task], trees: dict[str, Path], work: Path, directory: Path, children: Children
) -> Iterator[_Ended]:
    """Each as it ends; as many at once as there may be."""
    waiting, running = deque(tasks), list[tuple[Child, _Task]]()
    while waiting or running:
        while waiting and len(running) < plan.at_once:
            task = waiting.popleft()
            running.append((_started(plan, task, trees, work, children), task))
        running[0][0].wait(_LOOK_SECONDS)
        ended = [one for one in running if not one[0].running]
        running = [one for one in running if one not in ended]
        for child, task in ended:
            yield _read(plan, child, task, _place(work, task), directory)


def _place(work: Path, task: _Task) -> Path:
    """Of names of one length, for paths are on the stacks of the programs."""
    return work / f"{task.number:04d}"


def _started(plan: PlannedCount, task: _Task, trees: dict[str, Path], work: Path, children: Children) -> Child:
    place = _place(work, task)
    place.mkdir(parents=True)
    if task.operation.tree:
        # Not linked: LMDB writes into its file.
        clone(plan.engine, trees[task.operation.tree], place / _DATABASE, link=False)
    if task.build.library:
        (place / _LIBRARY).symlink_to(task.build.library)
    padding = plan.paddings[task.turn % len(plan.paddings)]
    argv = plan.counter.argv(_argv(plan, task), place, padding, plan.preload)
    return children.start(f"count {task.operation.name}", argv, stdout=place / _LOG)


def _read(plan: PlannedCount, child: Child, task: _Task, place: Path, directory: Path) -> _Ended:
    log = (place / _LOG).read_text(encoding="utf-8", errors="replace")
    if child.returncode:
        raise failed(f"{task.operation.name} of {task.arm} {plan.counter.under}", child, log)
    operations = task.operation.operations or _operations(plan, log, task)
    rules = rules_named(plan.engine.name).categories
    folded = None
    if task.turn == 0:
        folded = directory / task.operation.name / f"{task.arm}.folded"
        folded.parent.mkdir(exist_ok=True)
    counts = plan.counter.counts(place, log, task.operation, rules, folded)
    files = (place / _DATABASE).glob(plan.engine.about.data_files)
    ended = _Ended(task, operations, counts, sum(file.stat().st_size for file in files))
    shutil.rmtree(place)
    return ended


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


def _operations(plan: PlannedCount, log: str, task: _Task) -> int:
    closing = closing_line(log, task.operation.counted_benchmark)
    if closing is None or not closing["counted"]:
        raise MeasurementError(
            f"{task.operation.name} of {task.arm} {plan.counter.under} printed no counts: {log[-_LOG_END:].strip()}"
        )
    return int(closing["operations"]) * int(closing["phases"])


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
