"""Builds against a base in rounds: nothing of a build against itself, drift taken out, and what inlining moves."""

from __future__ import annotations

import math
import random

from ground.results.differences import BudgetRow
from ground.text.toml import tomllib
from ioflame.analysis.builds import Round, base_agrees, moved_rows, ratios, summed_rows
from workloads.registry import engine_named


def rounds(count: int, *, slower: float = 1.0, drift: float = 0.0, noise: float = 0.01, seed: int = 1) -> list[Round]:
    """A, B, A of each round; drift: of ln(QPS) from one run to the next."""
    dice = random.Random(seed)

    def qps(build: str, place: int) -> tuple[str, float]:
        factor = slower if build == "B" else 1.0
        return build, 10_000 * factor * math.exp(drift * place + dice.gauss(0, noise))

    return [[qps("A", 3 * turn), qps("B", 3 * turn + 1), qps("A", 3 * turn + 2)] for turn in range(count)]


def test_a_slower_build_is_found_and_one_against_itself_is_not() -> None:
    found = ratios("qps", "byrx", "A", {"slow": rounds(4, slower=0.8), "same": rounds(4, seed=2)}, {})
    assert found is not None
    slow, same = (found.cells[row]["B"] for row in ("slow", "same"))
    assert slow.mark == "-" and slow.high is not None and slow.high < 1 < slow.ratio + 0.25
    assert same.mark in ("?", "=") and same.low is not None and same.high is not None and same.low < 1 < same.high


def test_chance_alone_is_seldom_called_a_difference() -> None:
    marks = []
    for seed in range(100):
        found = ratios("qps", "byrx", "A", {"test": rounds(3, noise=0.05, seed=seed)}, {})
        assert found is not None
        marks.append(found.cells["test"]["B"].mark)
    assert sum(mark in "-+" for mark in marks) <= 12


def test_a_drift_of_the_host_is_no_build_but_the_base_tells_of_it() -> None:
    drifting = {"test": rounds(4, drift=0.05, noise=0.002)}
    found = ratios("qps", "byrx", "A", drifting, {})
    assert found is not None and abs(found.cells["test"]["B"].ratio - 1) < 0.01
    assert base_agrees("A", drifting).holds is False
    assert base_agrees("A", {"test": rounds(4)}).holds is True
    assert base_agrees("A", {"test": rounds(1)}).holds is None


def test_one_round_has_a_ratio_and_no_verdict_and_barred_builds_have_none_either() -> None:
    alone = ratios("qps", "byrx", "A", {"test": rounds(1, slower=0.5)}, {})
    assert alone is not None and (alone.cells["test"]["B"].mark, alone.cells["test"]["B"].low) == ("?", None)
    barred = ratios("qps", "byrx", "A", {"test": rounds(4, slower=0.5)}, {"B": ["assertions: on in A, off in B"]})
    assert barred is not None and barred.cells["test"]["B"].mark == "?"


def row(name: str, base: float, arm: float) -> BudgetRow:
    change = arm - base
    return BudgetRow(name, "category", base, arm, change, change - 0.02, change + 0.02)


def test_a_category_that_a_build_inlined_away_has_moved() -> None:
    rows = [row("bloom", 0.5, 0.0), row("IBI:Sk", 1.0, 1.45), row("other", 2.0, 4.0), row("LRU", 1.0, 1.0)]
    blind = moved_rows(rows, base_inlines=True, arm_inlines=False)
    # What its caller gained may be no more than that; what gained far more has a difference of its own.
    assert blind == {"bloom": "moved", "IBI:Sk": "moved?"}
    # A build whose debug information has inlined functions lacks such frames because it does no such work.
    assert moved_rows(rows, base_inlines=True, arm_inlines=True) == {}
    assert moved_rows([row("bloom", 0.0, 0.5)], base_inlines=False, arm_inlines=True) == {"bloom": "moved"}


def test_rows_that_one_engine_cannot_part_are_compared_as_their_sum() -> None:
    def rows_of(engine: str) -> set[str]:
        file = engine_named(engine).file("categories.toml")
        return {row["name"] for row in tomllib.loads(file.read_text())["view"]["owner"]["category"]}

    leveldb, rocksdb = rows_of("leveldb"), rows_of("rocksdb")
    assert summed_rows(leveldb, rocksdb) == {"IBI:Sk": "IBI+DBI:Sk", "DBI:Sk": "IBI+DBI:Sk"}
    # libc and k are no rows; who has the parts has no need of the sum.
    assert summed_rows(rocksdb, leveldb) == {} == summed_rows(leveldb, leveldb)
    # What both distinguish is one row under one name.
    assert {"fault", "libc+k", "checksm", "LRU", "bloom", "File"} <= leveldb & rocksdb
