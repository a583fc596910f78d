"""No summary is wider than the terminal, and none loses a figure for it."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from ground.results.categories import Categories, OtherFrame
from ground.results.checks import Check, Verdict
from ground.results.histogram import Histogram
from ground.results.interval import Interval
from ground.results.off_cpu import STATES, StateTotal
from ground.results.record import ObserverCost, RunRecord, Unobserved
from ground.text.columns import NO_BREAK, cells
from tests.viz import observers
from tests.viz.runs import record, view
from viz.terminal.columns import aligned, folded, microseconds, narrow
from viz.terminal.io_latency import io_latency_text
from viz.terminal.ladder import ladder_text
from viz.terminal.off_cpu import off_cpu_table, run_queue_table, wall_clock_table
from viz.terminal.owner_table import LEAST_WIDTH
from viz.terminal.pmp import render_locks
from viz.terminal.summary import render_summary

widths = st.integers(LEAST_WIDTH, 200)
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
    return [line for line in text.split("\n") if cells(line) > width and " " in line.strip(" ")]


@given(words, widths, st.booleans())
@example("00000000000\u0a77\u0e5c\U0001f8ae", 20, False)
@example("\u3250" * 9 + " " + "\u3250" * 7, 30, False)
@example("00000000\u0ace\u0cba\u2d68\u3250", 20, False)
def test_no_line_is_wider_than_the_terminal(name: str, width: int, unicode: bool) -> None:
    made, categories = whole(name)
    text = render_summary(made, categories, (), (), width, unicode, [replace(categories, view=name, description=LONG)])
    assert too_wide(text, width) == []
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@given(widths)
def test_no_figure_is_lost(width: int) -> None:
    made, categories = whole("name")
    told = {
        width: set(re.findall(r"\d[\d,.]*", render_summary(made, categories, (), (), width))) for width in (width, 200)
    }
    # of the owner table, columns may go (tests/viz/test_tables.py); of everything else, nothing may
    owner = {f"{row.samples:,}" for row in categories.rows} | set(re.findall(r"\d+\.\d{3}", str(told[200])))
    assert told[200] - told[width] <= owner | {"105"}


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


def test_what_is_piped_is_left_whole() -> None:
    assert folded(LONG, None) == LONG
    rows = [["a", *("column" for _ in range(40))]]
    assert "\n" not in aligned(rows)


def test_a_bar_goes_before_its_row_is_folded() -> None:
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
        ladder_text(observers.ladder(), 104.0),
        io_latency_text(replace(seen_io, rows=rows)),
        off_cpu_table(off),
        wall_clock_table(observers.wall_clock()),
        run_queue_table(queue),
    ):
        assert [line for line in text.split("\n") if cells(line) > 80] == [], text
    named = replace(seen_locks.sites[0], place="rocksdb::" * 9 + "LRUCacheShard::Lookup", kind="condition")
    locks = render_locks(replace(seen_locks, sites=[named]), observers.pmp().activity)
    assert [
        line for line in locks.split("\n") if cells(line) > 100
    ] == [] and "LRUCacheShard::Lookup  condition" in locks


@given(st.floats(0, 999_999_000), st.integers(1, 3))
def test_microseconds_take_six_columns_and_keep_their_value(ns: float, decimals: int) -> None:
    text = microseconds(ns, decimals)
    assert len(text) <= 6
    # As close as the last figure shown allows.
    assert abs(float(text) - ns / 1e3) <= 0.5001 * 10.0 ** -len(text.partition(".")[2])


@given(st.lists(st.tuples(words, words, words), min_size=1))
def test_narrow_columns_stand_below_each_other(rows: list[tuple[str, str, str]]) -> None:
    lines = narrow(rows, 1)
    wide = [max(len(row[i]) for row in rows) for i in range(3)]
    assert {len(line) for line in lines} == {sum(wide) + 2}
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row[0]) and line.endswith(row[2])
