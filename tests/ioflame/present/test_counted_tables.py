"""Tables of a count: every arm beside the base, a baseline's arm before the others, and what ends with exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.results import counted as results
from ground.results.counted import Category, Counted, CountedArm, CountRecord, Event, OfOperation
from ioflame.measure.count.plan import with_baseline
from ioflame.present.counted import failures, write_pages
from viz.page.counted import render_count
from viz.tables.counted import (
    NOT_COUNTED,
    Block,
    CountView,
    OperationView,
    change,
    count_section,
    figure,
    render_count_markdown,
)
from viz.terminal.table import section_text

OPERATIONS = 100


def counted(instructions: int, *, again: int | None = None) -> Counted:
    counts = [instructions * OPERATIONS, (instructions + 1) * OPERATIONS]
    flat = [5 * OPERATIONS] * 2
    events = {Event.INSTRUCTIONS: counts, Event.MISPREDICTIONS: flat, Event.LOCKED: flat, Event.SYSTEM_CALLS: [0, 0]}
    row = Category("LRU", "the block cache", {Event.INSTRUCTIONS: counts, Event.MISPREDICTIONS: flat})
    return Counted(OPERATIONS, events, counts[0] if again is None else again, 0, {"owner": [row]})


def record(**arms: Counted) -> CountRecord:
    of = OfOperation("Get of a key that is there", "operation", "owner", dict(arms))
    made = [CountedArm(name, "1.0", {}) for name in arms]
    depends = {"valgrind": "3.19.0", "libc": "a", "client": "b"}
    return CountRecord("0", "now", "rocksdb", depends, [0, 1024], made, {"get": of}, trees={"sorted": "id"})


def test_a_table_has_every_arm_and_its_change(tmp_path: Path) -> None:
    lacking = Counted(lacks="RocksDB has it since 7.3.1")
    shown = write_pages(
        tmp_path, record(old=counted(1000), new=counted(1100), same=counted(1000), none=lacking), 100
    ).text
    lines = [line.split() for line in shown.splitlines()]
    assert ["get", "1,000", "1,100", "1,000", "-", "operation"] in [line[:6] for line in lines]
    assert ["get", "+10.00%", "more", "instructions", "same", "within", "0.100%", "not", "counted"] in lines
    assert ["LRU", "1,000", "1,100", "1,000", "-"] in lines
    assert "none: not counted; RocksDB has it since 7.3.1" in shown and NOT_COUNTED in " ".join(shown.split())
    assert "system calls" not in shown
    assert (tmp_path / "summary.txt").read_text().startswith("Instructions, counted by callgrind (valgrind 3.19.0)")
    assert results.CountRun.open(tmp_path).record.operations["get"].arms["new"] == counted(1100)
    # From three arms on there is a curve, of those that were counted.
    assert "Instructions relative to old" in (tmp_path / "report.html").read_text()


def test_a_baseline_is_the_first_arm_and_is_held_to_no_limit(tmp_path: Path) -> None:
    results.CountRun(tmp_path, record(old=counted(1000), other=counted(5))).save()
    now = record(new=counted(1100))
    base = with_baseline(tmp_path, now)
    assert base.other_trees(now) == []
    both = base.before(now)
    assert [arm.name for arm in both.arms] == list(both.operations["get"].arms) == ["baseline", "new"]
    (above, more) = failures(both, 0.05, {"get": 900})
    assert above == "above its limit: get of new takes 1,100, the limit is 900"
    assert more == "above --fail-above: get of new takes +10.00%, 5.00% is allowed"
    assert failures(both, 0.1, {"get": 1200}) == []
    now.trees["sorted"] = "another"
    assert base.other_trees(now) == ["sorted"]
    (line,) = failures(record(one=counted(1000, again=1001 * OPERATIONS)), None, {})
    assert line.startswith("not repeatable: get of one differs by 0.100% from itself with the same padding")


def test_a_baseline_that_depends_on_something_else_is_refused(tmp_path: Path) -> None:
    results.CountRun(tmp_path, record(old=counted(1000))).save()
    now = record(new=counted(1000))
    now.depends_on["libc"] = "c"
    with pytest.raises(UsageError, match="was counted with something else: libc: a then, c now"):
        with_baseline(tmp_path, now)
    now.depends_on["libc"] = "a"
    now.paddings.append(2064)
    with pytest.raises(UsageError, match="paddings: "):
        with_baseline(tmp_path, now)


def test_what_speaks_against_instructions_stands_beside_them(tmp_path: Path) -> None:
    worse = counted(980)
    worse.events[Event.MISPREDICTIONS] = [50 * OPERATIONS] * 2
    shown = write_pages(tmp_path, record(old=counted(1000), new=worse), None).text
    assert "-2.00% fewer instructions; measure time (mispredictions +900%)" in shown
    # Of two arms the difference has a column.
    assert ["LRU", "1,000", "980", "-20"] in [line.split() for line in shown.splitlines()]
    # On the page as well, which has a bar of categories an arm.
    report = (tmp_path / "report.html").read_text()
    assert "new against old: get -2.00% fewer instructions; measure time" in report and "save SVG" in report


def test_functions_that_differ_most_come_first(tmp_path: Path) -> None:
    (tmp_path / "get").mkdir()
    for arm, own in {"old": (500, 400), "new": (510, 300)}.items():
        lines = [f"c;main;kept {own[0] * OPERATIONS}", f"c;main;changed {own[1] * OPERATIONS}", f"c;main {OPERATIONS}"]
        (tmp_path / "get" / f"{arm}.folded").write_text("\n".join(lines) + "\n")
    shown = write_pages(tmp_path, record(old=counted(1000), new=counted(1000)), None).text
    table = shown.partition("functions that differ most")[2].splitlines()[2:]
    assert [line.split() for line in table] == [["changed", "400", "300", "-100"], ["kept", "500", "510", "+10"]]


def test_a_change_is_of_two_arms() -> None:
    both: list[list[float | None]] = [[1000.0, 1100.0], [0.5, 0.25], [1.0, 1.0], [1.0, None], [1.0] * 3]
    assert [change(cells) for cells in both] == [["+100"], ["-0.25"], [""], [""], []]
    assert figure(None) == "-" and figure(12_345.6) == "12,346" and figure(0.5) == "0.5"


def test_of_one_arm_there_is_nothing_to_compare_and_names_are_no_markup() -> None:
    block = Block("category", "instructions by owner", {"<b>": [7.0], "none": [0.0]}, stacks=True)
    one = OperationView("get", "a <i>Get</i>", "operation", [1234.0], [], {}, [block])
    view = CountView("Counts", ["only"], {"valgrind": "3"}, [one])
    page = render_count(view)
    assert "only, instructions: get 1,234" in page and "Against" not in page
    assert "a &lt;i&gt;Get" in page and "<b>" not in page and "&lt;b&gt;" in page
    shown = section_text(count_section(view, {"get"}), 80)
    assert (
        "Against" not in shown and "none" not in shown and ["<b>", "7"] in [line.split() for line in shown.splitlines()]
    )


def test_a_pull_request_gets_a_table_and_a_line(tmp_path: Path) -> None:
    shown = write_pages(tmp_path, record(old=counted(1000), **{"a|b": counted(1100)}), None)
    assert shown.sentence == "a|b against old: get +10.00% more instructions"
    lines = shown.markdown.splitlines()
    assert lines[:5] == [
        f"**{shown.sentence}**",
        "",
        "| operation | old | a\\|b | a\\|b against old |",
        "| --- | ---: | ---: | --- |",
        "| get | 1,000 | 1,100 | +10.00% more instructions |",
    ]
    assert NOT_COUNTED in lines[-1] and "libc a" in lines[-1]
    one = OperationView("get", "", "operation", [None], [], {"only": "no such function"}, [])
    assert "| get | - |" in render_count_markdown(CountView("Counts", ["only"], {}, [one]))


def test_other_compilers_and_other_work_are_said(tmp_path: Path) -> None:
    now = record(old=counted(1000), new=counted(1100))
    assert "compiler" not in write_pages(tmp_path, now, None).text
    for arm, version in zip(now.arms, ("10.4.2", "10.5.1"), strict=True):
        arm.version = version
    now.arms[0].tools["engine_compiler"] = "GCC: (GNU) 7.3.1 20180303"
    now.arms[1].tools["engine_compiler"] = "GCC: (GNU) 11.2.1 20220127"
    now.operations["get"].arms["old"].stored, now.operations["get"].arms["new"].stored = 1000, 1020
    shown = write_pages(tmp_path, now, None)
    assert "old: gcc 7.3.1; new: gcc 11.2.1. A difference may be the compiler's." in shown.text
    assert "get: the files of new are +2.0% in size: it is other work." in shown.text
    assert "gcc 11.2.1" in shown.markdown and "gcc 11.2.1" in (tmp_path / "report.html").read_text()
