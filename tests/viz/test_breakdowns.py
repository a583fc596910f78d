"""Tables of CPU by parts: what one side has no row for is no change."""

from __future__ import annotations

from ground.results.differences import BudgetRow
from viz.breakdowns import against_base, parts_in_order


def row(name: str, base: float, arm: float) -> BudgetRow:
    return BudgetRow(name, "category", base, arm, arm - base, arm - base - 0.1, arm - base + 0.1)


def test_a_row_that_one_engine_alone_has_is_no_change() -> None:
    rows = [row("bloom", 0.4, 0.9), row("IBI:Sk", 0.0, 0.6), row("decomp", 0.8, 0.0)]
    lacks = {"leveldb": {"IBI:Sk"}, "rocksdb": {"decomp"}}
    table = against_base("", "leveldb", "rocksdb", rows, 3, {}, lacks)
    assert [list(line) for line in table.rows] == [
        ["bloom", "0.400", "0.900", "+0.500", "[+0.400, +0.600]", "significant"],
        ["IBI:Sk", "-", "0.600", "-", "", "no such row"],
        ["decomp", "0.800", "-", "-", "", "no such row"],
    ]


def test_the_largest_part_of_any_build_is_first_and_what_belongs_to_none_last() -> None:
    costs = [{"other": 9.0, "LRU": 1.0, "bloom": 2.0}, {"LRU": 3.0, "BSI": 0.5}]
    assert parts_in_order(costs) == ["LRU", "bloom", "BSI", "other"]
