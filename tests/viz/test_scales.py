"""Shares that add up, weights that can be read, names that fit into their frames."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.differences import BudgetRow
from ground.text.columns import cells
from viz.breakdowns import against_base, parts_in_order
from viz.flame.layout import fit, shorter_forms
from viz.weights import exact_weight, percentages, scaled_weight


@given(st.lists(st.integers(0, 2**70), min_size=1, max_size=30).filter(any), st.integers(0, 4))
def test_percentages_add_up_to_exactly_100_and_none_is_far_off(weights: list[int], decimals: int) -> None:
    printed = [Decimal(text) for text in percentages(weights, decimals)]
    assert sum(printed) == 100
    for weight, shown in zip(weights, printed, strict=True):
        assert abs(float(shown) - 100 * weight / sum(weights)) <= 10**-decimals + 1e-9


def test_the_published_row_is_reproduced_and_a_zero_stays_zero() -> None:
    published = [37.30, 3.76, 7.07, 3.05, 5.19, 18.35, 2.28, 3.74, 19.26]
    assert [float(text) for text in percentages(published)] == published
    assert percentages([1, 1, 1]) == ["33.34", "33.33", "33.33"]
    assert (percentages([0, 5]), percentages([0, 0])) == (["0.00", "100.00"], ["0.00", "0.00"])


def test_weights_are_scaled_to_three_digits_or_told_to_the_last() -> None:
    for weight, unit, text in (
        (1_234_000_000, "ns", "1.234 s"), (1_500_000, "ns", "1.500 ms"), (1_500, "ns", "1.500 us"),
        (999, "ns", "999 ns"), (4_640_123_456, "cycles", "4.640 G cycles"), (17, "page-faults", "17 page-faults"),
        (2_500, "page-faults", "2.500 k page-faults"),
    ):  # fmt: skip
        assert scaled_weight(weight, unit) == text
    assert exact_weight(2**63 + 1, "cycles") == "9,223,372,036,854,775,809 cycles"


# ---- what of a name fits into a frame --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "shorter"),
    [
        ("start_thread", []), ("rocksdb::DBImpl::Get", ["DBImpl::Get", "Get"]), ("odd::", []), ("::odd", []),
        ("rocksdb::(anonymous namespace)::F", ["(anonymous namespace)::F", "F"]),
        ("a::Map<b::Key, c::Value>::find", ["Map<b::Key, c::Value>::find", "find"]),
        ("a::f(b::C const&)", ["f(b::C const&)"]), ("a::B::operator<<", ["B::operator<<", "operator<<"]),
        ("a::operator->", ["operator->"]),
    ],
)  # fmt: skip
def test_namespaces_go_first_and_brackets_stay_whole(name: str, shorter: list[str]) -> None:
    assert [name[start:] for start in shorter_forms(name)] == shorter


def test_the_longest_form_that_fits_is_shown() -> None:
    name = "rocksdb::DBImpl::Get"
    shown = {20: name, 19: "DBImpl::Get", 10: "Get", 3: "Get", 2: ""}
    assert {room: fit(name, shorter_forms(name), room) for room in shown} == shown
    assert fit("a::VeryLongName", shorter_forms("a::VeryLongName"), 6) == "VeryL\u2026"
    # Wide characters take two columns.
    assert cells("\u6f22\u5b57") == 4 and fit("\u6f22\u5b57\u6f22", [], 5) == "\u6f22\u5b57\u2026"


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_label_never_takes_more_than_its_room(name: str, room: int) -> None:
    assert cells(fit(name, shorter_forms(name), room)) <= room


# ---- CPU by parts ----------------------------------------------------------------------------------------------------
def test_a_row_that_one_engine_alone_has_is_no_change() -> None:
    def row(name: str, base: float, arm: float) -> BudgetRow:
        return BudgetRow(name, "category", base, arm, arm - base, arm - base - 0.1, arm - base + 0.1)

    rows = [row("bloom", 0.4, 0.9), row("IBI:Sk", 0.0, 0.6), row("decomp", 0.8, 0.0)]
    lacks = {"leveldb": {"IBI:Sk"}, "rocksdb": {"decomp"}}
    table = against_base("", "leveldb", "rocksdb", rows, 3, {}, lacks)
    assert [list(line) for line in table.rows] == [
        ["bloom", "0.400", "0.900", "+0.500", "[+0.400, +0.600]", "significant"],
        ["IBI:Sk", "-", "0.600", "-", "", "no such row"],
        ["decomp", "0.800", "-", "-", "", "no such row"],
    ]
    # The largest part of any build is first, and what belongs to none last.
    costs = [{"other": 9.0, "LRU": 1.0, "bloom": 2.0}, {"LRU": 3.0, "BSI": 0.5}]
    assert parts_in_order(costs) == ["LRU", "bloom", "BSI", "other"]
