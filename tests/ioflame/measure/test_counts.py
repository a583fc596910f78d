"""Counts: which are refused before anything starts, kept by their padding, and a search between counted ends."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from folding.callgrind import CountedRow, Counts
from ground.errors import HostError, MeasurementError, UsageError
from ground.results.counted import Category, Counted, CountedArm, CountRecord, CountRun, Event, OfOperation
from ground.system.binaries import built_binary
from ground.text.progress import Reporter
from ioflame.measure.bisect.compared import CountedSearch, check_symptom, counted_symptom
from ioflame.measure.compare.conduct import planned_beside
from ioflame.measure.count import plan
from ioflame.measure.count.command import planned_command
from ioflame.measure.count.conduct import keep
from ioflame.measure.count.counters import Processor
from ioflame.measure.count.plan import PADDINGS, CountOptions
from workloads.counted_operations import CountedOperation


def test_beside_a_comparison_builds_alone_are_counted() -> None:
    with pytest.raises(UsageError, match="the arms differ by more than their builds"):
        planned_beside([], "cache_type", [])


def counts(number: int) -> Counts:
    row = CountedRow("LRU", "the block cache", {Event.INSTRUCTIONS: number})
    return Counts({Event.INSTRUCTIONS: number}, {"owner": [row]})


def test_counts_stand_at_their_padding_whichever_ended_first() -> None:
    found = Counted()
    for turn in (2, 0, 3, 1):
        keep(found, counts(100 + turn), 50, turn, 3)
    assert found.events == {Event.INSTRUCTIONS: [100, 101, 102]}
    assert (found.again, found.operations) == (103, 50)
    (row,) = found.views["owner"]
    assert row.events == {Event.INSTRUCTIONS: [100, 101, 102]}


def test_a_command_without_a_function_or_a_program_is_refused() -> None:
    with pytest.raises(UsageError, match="--per is not given") as refused:
        planned_command(["./a b", "--x"], "", "rocksdb", 2)
    assert refused.value.mend == "--per <one of its functions> -- './a b' --x"
    with pytest.raises(UsageError, match="/no/such is not found"):
        planned_command(["/no/such"], "main", "rocksdb", 2)


def test_all_that_a_count_lacks_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "allocator_package", lambda name: "libjemalloc2" if name == "jemalloc" else "")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HostError, match="needs valgrind and libjemalloc2, which are not installed") as caught:
        plan.check_installed("callgrind", "jemalloc")
    assert caught.value.mend.startswith("sudo apt-get install valgrind libjemalloc2")
    with pytest.raises(HostError, match="needs valgrind, which is not installed"):
        plan.check_installed("callgrind", "libc")
    plan.check_installed("processor", "libc")


def test_paddings_move_stacks() -> None:
    assert len(set(PADDINGS)) == len(PADDINGS) and all(padding % 16 == 0 for padding in PADDINGS)


def test_what_the_processor_counts_is_read_from_the_clients_closing_line() -> None:
    operation = CountedOperation("get", "Get", benchmarks="readrandom")
    closing = {"benchmark": "readrandom", "phases": 2, "operations": 5, "events": {"page-faults": [3, 4]}}
    counter = Processor({Event.INSTRUCTIONS: "page-faults"})
    assert counter.words == ["--counted_events=page-faults"]
    found = counter.counts(Path(), json.dumps(closing), operation, "", None)
    assert (found.events, found.views) == ({Event.INSTRUCTIONS: 7}, {})
    with pytest.raises(MeasurementError, match="the client printed no counts of get: Killed"):
        counter.counts(Path(), "Killed", operation, "", None)


def test_a_processor_without_the_counter_is_refused_with_what_works_without() -> None:
    with pytest.raises(HostError, match="cycles-of-nothing is not known") as refused:
        Processor.found(built_binary("ioflame-client"), "readrandom", {Event.INSTRUCTIONS: "cycles-of-nothing"})
    assert refused.value.mend == "--by callgrind, which needs no counter"


OPERATIONS = 100
COUNTS = {"good": [1000, 1001, 1002], "bad": [1100, 1101, 1102], "candidate": [1100, 1101, 1103]}


def counted(name: str) -> Counted:
    events = {Event.INSTRUCTIONS: [one * OPERATIONS for one in COUNTS[name]], Event.MISPREDICTIONS: [7] * 3}
    half = Category("LRU", "", {Event.INSTRUCTIONS: [one * OPERATIONS // 2 for one in COUNTS[name]]})
    none = Category("bloom", "", {Event.INSTRUCTIONS: [0, 0, 0]})
    return Counted(OPERATIONS, {**events, Event.LOCKED: [1] * 3}, 0, 0, {"owner": [half, none]})


class Given(CountedSearch):
    """Counts that are given, in place of valgrind's."""

    def _count(self, libraries: dict[str, Path], trees_of: CountRun | None) -> CountRun:
        of = OfOperation("", "operation", "owner", {name: counted(name) for name in libraries})
        record = CountRecord("", "", "rocksdb", {}, [0], [CountedArm(n, "", {}) for n in libraries], {"get": of})
        directory = self.out / f"{len(list(self.out.iterdir()))}-count-{'-'.join(libraries)}"
        directory.mkdir()
        study = CountRun(directory, record)
        study.save()
        assert (trees_of is None) == (len(libraries) == 2)
        return study


def search(out: Path, category: str = "") -> Given:
    options = CountOptions("rocksdb", allocator="libc", repeats=3, jobs=1)
    return Given(options, ("get", category), out, Reporter(quiet=True))


def test_a_candidate_is_counted_once_and_placed_between_the_ends(tmp_path: Path) -> None:
    proof = search(tmp_path).prove(Path("a"), Path("b"))
    assert proof.differs and proof.words.startswith("more instructions, +9.99%")
    # Another process continues the search: the ends are not counted again.
    seen = search(tmp_path).session(Path("a"), Path("c"), Path("b"), 8)
    assert seen.ends == pytest.approx([math.log(1.1)] * 3, rel=1e-2)
    # As bad as the bad end: half of the difference above the middle.
    assert seen.off == pytest.approx([math.log(1.1) / 2] * 3, rel=1e-1)
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["0-count-good-bad", "1-count-candidate"]


def test_a_category_is_a_symptom_where_it_has_instructions(tmp_path: Path) -> None:
    found = search(tmp_path, "LRU").prove(Path("a"), Path("b"))
    assert found.differs and found.change == "+9.99%"
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="nothing of get is counted in the category bloom") as refused:
        search(tmp_path / "other", "bloom").prove(Path("a"), Path("b"))
    assert refused.value.mend == "--symptom instructions:<operation>:LRU"


def test_what_was_not_counted_has_no_figure(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="get is not counted: none before"):
        search(tmp_path)._figures(Counted(lacks="none before 7.3"))


def test_a_symptom_is_a_figure_a_category_or_instructions_of_an_operation_and_a_category() -> None:
    assert counted_symptom("instructions:put:WAL") == ("put", "WAL")
    assert counted_symptom("instructions") == ("get", "")
    assert counted_symptom("category:LRU") is counted_symptom("qps") is None
    known = ["qps", "cpuPer", "category:LRU", "instructions:get"]
    assert [check_symptom(one) for one in known] == known
    for unknown in ("category:", "instruction"):
        with pytest.raises(UsageError, match=f"--symptom {unknown} is not known"):
            check_symptom(unknown)
