"""Symptoms of a search that are counted, and how a counted candidate is placed between the ends."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.counted import Category, Counted, CountedArm, CountRecord, Event, OfOperation, write_count
from ground.text.progress import Reporter
from ioflame.measure.bisect.compared import check_symptom
from ioflame.measure.bisect.counted import CountedSearch, counted_symptom
from ioflame.measure.count.plan import CountOptions

OPERATIONS = 100
COUNTS = {"good": [1000, 1001, 1002], "bad": [1100, 1101, 1102], "candidate": [1100, 1101, 1103]}


def counted(name: str) -> Counted:
    events = {Event.INSTRUCTIONS: [one * OPERATIONS for one in COUNTS[name]], Event.MISPREDICTIONS: [7] * 3}
    half = Category("LRU", "", {Event.INSTRUCTIONS: [one * OPERATIONS // 2 for one in COUNTS[name]]})
    none = Category("bloom", "", {Event.INSTRUCTIONS: [0, 0, 0]})
    return Counted(OPERATIONS, {**events, Event.LOCKED: [1] * 3}, 0, 0, {"owner": [half, none]})


class Given(CountedSearch):
    """Counts that are given, in place of valgrind's."""

    def _count(self, libraries: dict[str, Path], trees_of: Path | None) -> tuple[Path, CountRecord]:
        of = OfOperation("", "operation", "owner", {name: counted(name) for name in libraries})
        record = CountRecord("", "", "rocksdb", {}, [0], [CountedArm(n, "", {}) for n in libraries], {"get": of})
        directory = self.out / f"{len(list(self.out.iterdir()))}-count-{'-'.join(libraries)}"
        directory.mkdir()
        write_count(directory, record)
        assert (trees_of is None) == (len(libraries) == 2)
        return directory, record


def search(out: Path, category: str = "") -> Given:
    options = CountOptions("rocksdb", None, None, [], "libc", 3, 1, out)
    return Given(options, ("get", category), out, Reporter(quiet=True))


def test_a_candidate_is_counted_once_and_placed_between_the_ends(tmp_path: Path) -> None:
    proof = search(tmp_path).prove(Path("a"), Path("b"))
    assert proof.differs and proof.words.startswith("regressed, +9.99%")
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


def test_symptoms_have_an_operation_and_a_category() -> None:
    assert counted_symptom("instructions:put:WAL") == ("put", "WAL")
    assert counted_symptom("instructions") == ("get", "")
    assert counted_symptom("category:LRU") is counted_symptom("qps") is None
    assert check_symptom("instructions:get") == "instructions:get"
    with pytest.raises(UsageError, match="--symptom instruction is not known"):
        check_symptom("instruction")
