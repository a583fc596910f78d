"""Windows around what a test orders, and the one rule for the parts of what was followed: they add up to it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ebpf.tail import TailRequest, tail_observer
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.ladder import Ladder, read_ladder
from ground.results.query_records import PARTS, QueryRecord, Recorded, read_query_records, read_recorded
from ground.system.observer import Observer, attached
from ground.system.process import Children
from ground.text.progress import Reporter

# A prime: a count that is short by a round number is no accident of the load.
FEW = 211
BACKENDS = ["co-re", pytest.param("bpftrace", marks=pytest.mark.needs("bpftrace"))]

Load = Callable[[], object]


class OrderedProgram:
    """A program that carries out orders, ready for its first: a line in, a line out."""

    def __init__(self, *argv: str | Path) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.answer() == "ready"

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def query(self, words: str) -> int:
        self.order(words)
        return int(self.answer())

    def orders(self, *orders: str) -> Load:
        """What carries them out, one after the other."""
        return lambda: [self.query(order) for order in orders]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Standin(OrderedProgram):
    """A stand-in engine as a process: orders in, counts out. prefix: a command that runs it; shape: of standin.cc"""

    def __init__(self, binary: Path, data: Path, *prefix: str, shape: int = 1) -> None:
        super().__init__(*prefix, binary, data, str(shape))
        self.data = data


def nothing_at_all() -> None:
    """The load of an empty window."""


@contextlib.contextmanager
def _attached(observer: Observer, engine: OrderedProgram | None) -> Iterator[Observer]:
    """engine: has queries while the observer attaches, and then none but those that are ordered."""
    if engine is not None:
        engine.order("go")
    with attached(observer, Reporter(quiet=True)):
        if engine is not None:
            engine.query("stop")
        yield observer


@contextlib.contextmanager
def watched(observer: Observer, engine: OrderedProgram | None = None) -> Iterator[None]:
    """A window of the observer."""
    with _attached(observer, engine):
        observer.open()
        yield
        observer.close()


def observed(observer: Callable[[Children], Observer], load: Load, engine: OrderedProgram | None = None) -> None:
    """Carries out the load in a window of an observer of our own."""
    with Children() as children, watched(observer(children), engine):
        load()


def in_turns(observer: Callable[[Children], Observer], load: Load, engine: OrderedProgram | None = None) -> None:
    """The load in each of three turns of an observer, and in between, before and after."""
    with Children() as children, _attached(observer(children), engine) as one:
        load()
        for _ in range(3):
            one.open()
            load()
            one.close()
            load()


def ladder_of(request: LadderRequest, directory: Path, load: Load, engine: OrderedProgram | None = None) -> Ladder:
    """The ladder of a window in which the load was carried out."""
    out = directory / "ladder.json"
    observed(lambda children: ladder_observer(request, children, out), load, engine)
    return whole_ladder(out)


def whole_ladder(path: Path) -> Ladder:
    """A ladder from its file; its parts add up, whatever happened."""
    ladder = read_ladder(path)
    for whole, parts in ((ladder.total, ladder.stages), *((one, many.parts) for one, many in ladder.with_parts)):
        assert not parts or {part.count for part in parts} == {whole.count}, whole.name
        assert sum(part.sum_ns for part in parts) == whole.sum_ns, whole.name
        assert sum(count for _, _, count in whole.buckets) == whole.count, whole.name
    return ladder


def on_device(ladder: Ladder) -> int:
    """Queries with one read: some of these never sleep, few or most of them as it pleases the host of a VM."""
    return sum(ladder.of_class(name).count for name in ("one_read", "awake", "disorder"))


def records_of(
    request: TailRequest, directory: Path, load: Load, engine: OrderedProgram | None = None
) -> tuple[Recorded, list[QueryRecord]]:
    """The records of a window in which the load was carried out: the parts of each add up to it, each wait for an own
    request is for the one that was done last in it, and each sample is within its query."""
    # However fast this host is: what the traps take is no matter of what they see.
    forced = replace(request, force=True)
    observed(lambda children: tail_observer(forced, children, directory), load, engine)
    told, file = read_recorded(directory / Files.RECORDED), read_query_records(directory / Files.QUERY_RECORDS)
    assert told.uneven == 0 and told.kept == len(file.records)
    for one in file.records:
        assert sum(one.parts) == one.ns
        done = [span.runs for span in one.spans if span.is_request]
        for wait in one.waits:
            if wait.awaited:
                assert one.spans[wait.awaited - 1].runs == max(at for at in done if wait.left < at <= wait.woken)
        assert all(one.begin_ns <= span.left <= one.end_ns for span in one.samples)
    return told, file.records


def part_sums(records: Sequence[QueryRecord]) -> dict[str, int]:
    """ns of all records in each of PARTS."""
    return dict(zip(PARTS, (sum(ns) for ns in zip(*(one.parts for one in records), strict=True)), strict=True))


def failed(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.verdict is Verdict.FAILED]


def checked(ladder: Ladder, name: str) -> Check:
    return next(check for check in ladder_checks(ladder) if check.name == f"ladder {name}")
