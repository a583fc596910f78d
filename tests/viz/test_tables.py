"""Tables for the terminal, asserted as the text that a reader sees."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ground.results.categories import Category
from ground.results.interval import Interval
from ground.text.columns import cells
from viz.terminal.owner_table import LEAST_WIDTH, owner_table, summary_block


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


def whole(*rows: Category) -> list[Category]:
    """The rows of a table, each with its share of all their weight."""
    total = sum(one.weight for one in rows)
    return [replace(one, share=100 * one.weight / total) for one in rows]


ROWS = whole(
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


def test_intervals_stand_beside_the_shares_and_give_way_before_them() -> None:
    rows = whole(
        row("a", "", 4, 1.0, 2.0, 30, Interval(40.0, 35.04, 44.96, 9)),
        row("b", "", 6, 1.5, 3.0, 45),
    )
    text = owner_table(rows, unit="ns", width=80)
    assert re.search(r"^a +40\.00 +1\.000 +2\.000 +35\.0\.\.45\.0 +30 ", text, re.M)
    assert re.search(r"^b +60\.00 +1\.500 +3\.000 +- +45 ", text, re.M)
    assert "95 %: the share's interval" in text
    narrow = owner_table(rows, unit="ns", width=36, legend=False)
    assert "95 %" not in narrow
    assert "us/read" in narrow


def test_plain_ascii_without_a_legend() -> None:
    text = owner_table(ROWS, unit="ns", width=60, legend=False, unicode=False)
    assert text.isascii()
    assert text.splitlines()[1] == "libc+k    37.30     7.179    7.121  1,730  ##############"
    assert len(text.splitlines()) == len(ROWS) + 3


def test_what_was_not_measured_is_a_dash_and_so_is_its_total() -> None:
    rows = whole(row("a", "", 5, 1.0, None, 3), row("b", "", 5, None, None, 4))
    text = owner_table(rows, unit="ns", width=80)
    assert "us/read" not in text  # nothing in it was measured
    assert re.search(r"^a +50\.00 +1\.000 +3 ", text, re.M)
    assert re.search(r"^b +50\.00 +- +4 ", text, re.M)
    assert re.search(r"^all +100\.00 +- +7$", text, re.M)
    assert "-: not measured." in text


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (100, "owner   % of cycles  us/query  us/read      n"),
        (45, "owner   % of cycles  us/query  us/read      n"),
        (44, "owner   % of cycles  us/query  us/read"),
        (37, "owner   % of cycles  us/query"),
        (28, "owner   % of cycles"),
        (20, "owner   % of cycles"),
    ],
)
def test_columns_go_when_the_width_is_short_and_figures_are_never_cut(width: int, header: str) -> None:
    text = owner_table(ROWS, unit="cycles", width=width)
    assert text.splitlines()[0] == header
    assert re.search(r"^libc\+k +37\.30", text, re.M)


def test_a_long_unit_gives_way_to_the_figures() -> None:
    text = owner_table(ROWS, unit="instructions_retired", width=LEAST_WIDTH)
    assert text.splitlines()[0].split() == ["owner", "%"]
    assert "instructions_retired" in text  # in the legend


names = st.text(min_size=1, max_size=30)
figures = st.none() | st.floats(0, 1e6)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=12), st.integers(LEAST_WIDTH, 160))
def test_printed_shares_add_up_to_exactly_100(weights: list[int], width: int) -> None:
    rows = whole(*(row(f"row{i}", "", w, n=w) for i, w in enumerate(weights)))
    text = owner_table(rows, unit="cycles", width=width)
    shares = re.findall(r"^row\d+ +(\d+\.\d\d)\b", text, re.M)
    assert len(shares) == len(weights)
    assert sum(map(Decimal, shares)) == 100


@settings(deadline=None)  # the machine may be busy
@given(
    st.lists(st.tuples(names, names, st.integers(1, 10**9), figures, figures), min_size=1, max_size=12),
    st.integers(LEAST_WIDTH, 160),
    st.booleans(),
)
def test_no_line_is_wider_than_asked(
    given_rows: list[tuple[str, str, int, float | None, float | None]], width: int, unicode: bool
) -> None:
    rows = whole(*(row(n, label, w, q, r, w) for n, label, w, q, r in given_rows))
    text = owner_table(rows, unit="cycles", width=width, unicode=unicode)
    lines = text.split("\n")
    assert max(cells(line) for line in lines) <= width
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.tuples(names, names, names), max_size=8), st.integers(LEAST_WIDTH, 160))
@example(items=[("0", "\u0300", "0")], width=20)
def test_no_line_of_a_summary_is_wider_than_asked(items: list[tuple[str, str, str]], width: int) -> None:
    assert all(cells(line) <= width for line in summary_block(items, width).split("\n"))


def test_a_name_cannot_steer_the_terminal() -> None:
    text = owner_table(whole(row("\x1b[31mred", "a\nb\x07", 1)), unit="ns", width=80)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a b\ufffd" in text


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add up to 0\.9"):
        owner_table([replace(row("a", "", 1), share=90.0)], unit="ns", width=80)
    with pytest.raises(ValueError, match="needs a row"):
        owner_table([], unit="ns", width=80)
    with pytest.raises(ValueError, match="10 columns"):
        owner_table(ROWS, unit="ns", width=10)


def test_a_wide_summary() -> None:
    assert summary_block(ITEMS, 90) == (
        "QPS       8,282   queries per second in the plain windows\n"
        "coverage  97.3 %  sampled time over scheduler CPU time of the same window\n"
        "event     cycles\n"
    )


def test_an_explanation_wraps_in_its_column() -> None:
    assert summary_block(ITEMS[1:], 50) == (
        "coverage  97.3 %  sampled time over scheduler CPU\n"
        "                  time of the same window\n"
        "event     cycles\n"
    )


def test_an_explanation_goes_below_where_it_is_narrow() -> None:
    assert summary_block(ITEMS[:1], 24) == "QPS  8,282\n  queries per second in\n  the plain windows\n"


def test_a_long_value_wraps_and_loses_nothing() -> None:
    text = summary_block([("command", "db_bench --benchmarks=readrandom --threads=1", "")], 30)
    assert "".join(text.split()) == "commanddb_bench--benchmarks=readrandom--threads=1"


def test_an_empty_summary_is_empty() -> None:
    assert summary_block([], 80) == ""
    assert summary_block([("name", "", "")], 80) == "name\n"
