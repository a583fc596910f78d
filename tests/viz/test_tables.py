"""Tables and summaries of the terminal: none is wider than it, and none loses a figure for it."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
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
from viz.owner_table import LEAST_WIDTH, owner_table, summary_block
from viz.tables.io_latency import io_latency_section
from viz.tables.ladder import ladder_section
from viz.tables.off_cpu import off_cpu_section, run_queue_section, wall_clock_section
from viz.tables.pmp import locks_section
from viz.terminal.summary import render_summary
from viz.terminal.table import section_text

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
    return [line for line in text.split("\n") if cells(line) > width and "\n" in fold_line(line.strip(" "), 20, 0)]


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
    # of the owner table, columns may go; of everything else, nothing may
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
ITEMS = (
    ("QPS", "8,282", "queries per second in the plain windows"),
    ("coverage", "97.3 %", "sampled time over scheduler CPU time of the same window"),
    ("event", "cycles", ""),
)


def test_the_whole_owner_table() -> None:
    assert owner_table(ROWS, unit="cycles", width=78) == (
        "owner   % of cycles  us/query  us/read      n\n"
        "libc+k        37.30     7.179    7.121  1,730  ██████████████████████████▏\n"
        "bloom         18.35     3.532    3.503    851  ████████████▉\n"
        "LRU            0.00     0.000    0.000      0\n"
        "other         44.35     8.535    8.466  2,057  ███████████████████████████████\n"
        "─────────────────────────────────────────────\n"
        "all          100.00    19.246   19.090  4,638\n"
        "\n"
        "% is the share of all cycles of the profile. us/query: CPU us per query of the\n"
        "engine. us/read: CPU us per storage read. n: samples.\n"
        "libc+k  the read call: libc and the kernel below it\n"
        "bloom   bloom filters: reading the filter block and probing it\n"
        "LRU     the block cache\n"
        "other   no anchor on the stack\n"
    )
    # In ASCII, without a legend.
    text = owner_table(ROWS, unit="ns", width=60, legend=False, unicode=False)
    assert text.isascii()
    assert text.splitlines()[1] == "libc+k    37.30     7.179    7.121  1,730  ##############"
    assert len(text.splitlines()) == len(ROWS) + 3


def test_intervals_stand_beside_the_shares_and_give_way_before_them() -> None:
    rows = shared(row("a", "", 4, 1.0, 2.0, 30, Interval(40.0, 35.04, 44.96, 9)), row("b", "", 6, 1.5, 3.0, 45))
    text = owner_table(rows, unit="ns", width=80)
    assert re.search(r"^a +40\.00 +1\.000 +2\.000 +35\.0\.\.45\.0 +30 ", text, re.M)
    assert re.search(r"^b +60\.00 +1\.500 +3\.000 +- +45 ", text, re.M)
    assert "95 %: the share's interval" in text
    narrow = owner_table(rows, unit="ns", width=36, legend=False)
    assert "95 %" not in narrow
    assert "us/read" in narrow
    # What was not measured is a dash, and so is its total.
    rows = shared(row("a", "", 5, 1.0, None, 3), row("b", "", 5, None, None, 4))
    text = owner_table(rows, unit="ns", width=80)
    assert "us/read" not in text  # nothing in it was measured
    assert re.search(r"^a +50\.00 +1\.000 +3 ", text, re.M)
    assert re.search(r"^b +50\.00 +- +4 ", text, re.M)
    assert re.search(r"^all +100\.00 +- +7$", text, re.M)
    assert "-: not measured." in text


def test_columns_go_when_the_width_is_short_and_figures_are_never_cut() -> None:
    for width, header in (
        (100, "owner   % of cycles  us/query  us/read      n"),
        (45, "owner   % of cycles  us/query  us/read      n"),
        (44, "owner   % of cycles  us/query  us/read"),
        (37, "owner   % of cycles  us/query"),
        (28, "owner   % of cycles"),
        (20, "owner   % of cycles"),
    ):
        text = owner_table(ROWS, unit="cycles", width=width)
        assert text.splitlines()[0] == header and re.search(r"^libc\+k +37\.30", text, re.M)
    text = owner_table(ROWS, unit="instructions_retired", width=LEAST_WIDTH)
    assert text.splitlines()[0].split() == ["owner", "%"] and "instructions_retired" in text  # in the legend


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=12), st.integers(LEAST_WIDTH, 160))
def test_printed_shares_add_up_to_exactly_100(weights: list[int], width: int) -> None:
    rows = shared(*(row(f"row{i}", "", w, n=w) for i, w in enumerate(weights)))
    text = owner_table(rows, unit="cycles", width=width)
    shares = re.findall(r"^row\d+ +(\d+\.\d\d)\b", text, re.M)
    assert len(shares) == len(weights)
    assert sum(map(Decimal, shares)) == 100


def test_shares_that_do_not_add_up_are_refused_and_a_name_cannot_steer_the_terminal() -> None:
    with pytest.raises(ValueError, match=r"add up to 0\.9"):
        owner_table([replace(row("a", "", 1), share=90.0)], unit="ns", width=80)
    with pytest.raises(ValueError, match="needs a row"):
        owner_table([], unit="ns", width=80)
    with pytest.raises(ValueError, match="10 columns"):
        owner_table(ROWS, unit="ns", width=10)
    text = owner_table(shared(row("\x1b[31mred", "a\nb\x07", 1)), unit="ns", width=80)
    assert "\x1b" not in text and "\x07" not in text and "a b\ufffd" in text


def test_a_summary_wraps_in_its_columns_and_loses_nothing() -> None:
    assert summary_block(ITEMS, 90) == (
        "QPS       8,282   queries per second in the plain windows\n"
        "coverage  97.3 %  sampled time over scheduler CPU time of the same window\n"
        "event     cycles\n"
    )
    assert summary_block(ITEMS[1:], 50) == (
        "coverage  97.3 %  sampled time over scheduler CPU\n"
        "                  time of the same window\n"
        "event     cycles\n"
    )
    # Where it is narrow, the explanation goes below.
    assert summary_block(ITEMS[:1], 24) == "QPS  8,282\n  queries per second in\n  the plain windows\n"
    text = summary_block([("command", "db_bench --benchmarks=readrandom --threads=1", "")], 30)
    assert "".join(text.split()) == "commanddb_bench--benchmarks=readrandom--threads=1"
    assert (summary_block([], 80), summary_block([("name", "", "")], 80)) == ("", "name\n")
