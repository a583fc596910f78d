"""Tables and summaries of the terminal: none is wider than it, and none loses a figure for it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ground.results.categories import Categories, Category, OtherFrame
from ground.results.checks import Check, Verdict
from ground.results.histogram import Histogram
from ground.results.interval import Interval
from ground.results.off_cpu import StateTotal
from ground.results.record import ObserverCost, RunRecord, Unobserved
from ground.results.states import STATES
from ground.text.columns import NO_BREAK, cells, fold_line
from tests.viz import observers
from tests.viz.runs import record, view
from viz.columns import aligned, folded, microseconds
from viz.table import CUT
from viz.tables.categories import categories_table
from viz.tables.io_latency import io_latency_section
from viz.tables.ladder import ladder_section
from viz.tables.off_cpu import off_cpu_section, run_queue_section, wall_clock_section
from viz.tables.pmp import locks_section
from viz.terminal.summary import render_summary
from viz.terminal.table import section_text, table_text

widths = st.integers(20, 200)
# A no-break space is ours: it holds a name and its figure together, and is printed as a blank.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=NO_BREAK), min_size=1, max_size=40)
LONG = "rocksdb::(anonymous namespace)::FilterBlockReader::KeyMayMatch<rocksdb::Slice> " * 3


def whole(name: str) -> tuple[RunRecord, Categories]:
    """A record with something in every part of the summary."""
    made = record(
        missing=[f"the {name} window"],
        unobserved=[Unobserved("iolat", f"{name} cannot be loaded", "apt-get install " + name, True)],
        costs=[ObserverCost("perf", Interval(0.97, 0.95, 0.99, 12))],
        checks=[
            Check("self weight by symbol", Verdict.FAILED, name, LONG, "make doctor"),
            Check(name, Verdict.OK, "97 %"),
        ],
    )
    owner = view().owner
    assert owner is not None
    return made, replace(owner, other_frames=[OtherFrame(LONG, 7), OtherFrame(name, 3)])


def too_wide(text: str, width: int) -> list[str]:
    """Lines wider than asked that are not one word alone, which stays whole to be copied."""
    return [line for line in text.split("\n") if cells(line) > width and "\n" in fold_line(line.strip(" "), 20, 0)]


@given(words, widths)
@example("00000000000\u0a77\u0e5c\U0001f8ae", 20)
@example("\u3250" * 9 + " " + "\u3250" * 7, 30)
@example("00000000\u0ace\u0cba\u2d68\u3250", 20)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    made, categories = whole(name)
    text = render_summary(made, categories, (), (), width, [replace(categories, view=name, description=LONG)])
    assert too_wide(text, width) == []
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@given(widths)
def test_no_figure_is_lost(width: int) -> None:
    made, categories = whole("name")
    told = {
        width: set(re.findall(r"\d[\d,.]*", render_summary(made, categories, (), (), width))) for width in (width, 200)
    }
    assert told[200] <= told[width]


cell = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)


@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), min_size=1, max_size=5)),
    widths,
)
def test_columns_that_do_not_fit_go_below(rows: list[list[str]], width: int) -> None:
    text = aligned(rows, width)
    least = 2 + max(len(row[0]) for row in rows) + 2 + max((len(c) for row in rows for c in row[1:]), default=0)
    assert max(len(line) for line in text.split("\n")) <= max(width, least)
    blocks = [block.split("\n") for block in text.split("\n\n")]
    for number, row in enumerate(rows):  # each row is whole, cell by cell, with its head in every block
        found = [block[number].split() for block in blocks]
        assert [one[0] for one in found] == [row[0]] * len(blocks)
        assert [c for one in found for c in one[1:]] == row[1:]


def test_what_is_piped_is_left_whole_and_a_bar_goes_before_its_row_is_folded() -> None:
    assert folded(LONG, None) == LONG
    rows = [["a", *("column" for _ in range(40))]]
    assert "\n" not in aligned(rows)
    row = "device    48.70  34.4% \u2588\u2588\u258e"
    assert folded(row, 22) == "device    48.70  34.4%"
    assert folded(row, len(row)) == row
    assert folded("\u2588" * 30, 20) == "\u2588" * 30  # nothing but a bar is a word


def test_tables_of_observers_fit_80_columns() -> None:
    seen_off, seen_queue, seen_io, seen_locks = (
        observers.off_cpu(), observers.run_queue(), observers.io_latency(), observers.locks()
    )  # fmt: skip
    long = Histogram(10**8, 10**15, 10**3, 10**10, [(10**3, 1024, 10**8 - 10**5), (10**10, 10**10 + 10**8, 10**5)])
    off = replace(seen_off, states=dict.fromkeys(STATES, StateTotal(10**13, 10**8)))
    queue = replace(seen_queue, waits=dict.fromkeys(seen_queue.waits, long))
    rows = [replace(row, queue=long, device=long, total=long) for row in seen_io.rows]
    for text in (
        section_text(ladder_section(observers.ladder(), 104.0), 80),
        section_text(io_latency_section(replace(seen_io, rows=rows)), 80),
        section_text(off_cpu_section(off), 80),
        section_text(wall_clock_section(observers.wall_clock()), 80),
        section_text(run_queue_section(queue), 80),
    ):
        assert [line for line in text.split("\n") if cells(line) > 80] == [], text
    named = replace(seen_locks.sites[0], place="rocksdb::" * 9 + "LRUCacheShard::Lookup", kind="condition")
    locks = section_text(locks_section(replace(seen_locks, sites=[named]), observers.pmp()))
    assert [
        line for line in locks.split("\n") if cells(line) > 100
    ] == [] and "LRUCacheShard::Lookup  condition" in locks


@given(st.floats(0, 999_999_000), st.integers(1, 3))
def test_microseconds_take_six_columns_and_keep_their_value(ns: float, decimals: int) -> None:
    text = microseconds(ns, decimals)
    assert len(text) <= 6
    # As close as the last figure shown allows.
    assert abs(float(text) - ns / 1e3) <= 0.5001 * 10.0 ** -len(text.partition(".")[2])


# ---- the table of owners, as the text that a reader sees -------------------------------------------------------------
def row(
    name: str,
    label: str,
    weight: int,
    us_per_query: float | None = None,
    us_per_read: float | None = None,
    n: int | None = None,
    interval: Interval | None = None,
) -> Category:
    return Category(name, label, weight, 0.0, n, interval, us_per_query, us_per_read)


def shared(*rows: Category) -> list[Category]:
    """The rows of a table, each with its share of all their weight."""
    total = sum(one.weight for one in rows)
    return [replace(one, share=100 * one.weight / total) for one in rows]


ROWS = shared(
    row("libc+k", "the read call: libc and the kernel below it", 3730, 7.179, 7.121, 1730),
    row("bloom", "bloom filters: reading the filter block and probing it", 1835, 3.532, 3.503, 851),
    row("LRU", "the block cache", 0, 0, 0, 0),
    row("other", "no anchor on the stack", 4435, 8.535, 8.466, 2057),
)


def owner_text(rows: list[Category], unit: str = "ns", width: int = 100, **more: Any) -> str:
    found = Categories("owner", [], sum(one.weight for one in rows), rows, [])
    return table_text(categories_table(found, unit, "CPU", "owner", whole=True, **more), width)


def test_the_whole_owner_table() -> None:
    assert owner_text(ROWS, "cycles", 64, about=None) == (
        "CPU\n"
        "  category     short   CPU %         95 % us/query us/read     n\n"
        "  read syscall libc+k  37.30 35.92..38.70    7.179   7.121 1,730\n"
        "  bloom filter bloom   18.35 17.26..19.49    3.532   3.503   851\n"
        "  block cache  LRU      0.00   0.00..0.08    0.000   0.000     0\n"
        "  other                44.35 42.93..45.78    8.535   8.466 2,057\n"
        "  all                 100.00            -   19.246  19.090 4,638\n"
        "  95 %: interval of Wilson from the number of samples, taken as\n"
        "  independent draws of equal weight; it does not include what\n"
        "  changes from run to run."
    )
    # What each row is stands beside it or below; or beside it alone, cut. What is heaviest can come first.
    assert "  block cache   the block cache" in owner_text(ROWS, "cycles", 60)
    assert re.search(
        r"^  read syscall .* 1,730  the read call: libc~$", owner_text(ROWS, "cycles", 92, about=CUT), re.M
    )
    assert "the read call" not in owner_text(ROWS, "cycles", 60, about=CUT)
    found = Categories("owner", [], 10000, [ROWS[1], *ROWS], [])
    lines = table_text(categories_table(found, "ns", ""), 60).splitlines()
    names = [line.split()[0] for line in lines[2:6]]
    assert names == ["read", "bloom", "bloom", "other"]


def test_intervals_stand_beside_the_shares() -> None:
    rows = shared(row("a", "", 4, 1.0, 2.0, 30, Interval(40.0, 35.04, 44.96, 9)), row("b", "", 6, 1.5, 3.0))
    text = owner_text(rows)
    assert re.search(r"^  a +40\.00 +35\.04\.\.44\.96 +1\.000 +2\.000 +30 ", text, re.M)
    assert re.search(r"^  b +60\.00 +- +1\.500 +3\.000 +- ", text, re.M)
    assert "by how rounds differ" in text
    # What was not measured is a dash, and so is its total.
    text = owner_text(shared(row("a", "", 5, 1.0, None, 3), row("b", "", 5, None, None, 4)))
    assert "us/read" not in text  # nothing in it was measured
    assert re.search(r"^  a +50\.00 +[\d.]+ +1\.000 +3 ", text, re.M)
    assert re.search(r"^  b +50\.00 +[\d.]+ +- +4 ", text, re.M)
    assert re.search(r"^  all +100\.00 +- +- +7$", text, re.M)
