"""Builds against a base in rounds: nothing of a build against itself, drift taken out, and what inlining moves."""

from __future__ import annotations

import csv
import math
import random
from itertools import product
from random import Random

import pytest

from ground.results.differences import BudgetRow, Cell, Decision
from ground.text.toml import tomllib
from ioflame.analysis.builds import Round, base_agrees, moved_rows, ratios, summed_rows
from ioflame.analysis.compare.relative import agreement, cell_of, geometric_mean, relative_table
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare
from tests.ioflame.analysis.worlds import steady
from viz.tables.relative import agreement_lines, relative_section, render_relative_markdown, render_relative_tsv
from viz.terminal.table import section_text
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
    tables = [ratios("qps", "byrx", "A", {"test": rounds(3, noise=0.05, seed=seed)}, {}) for seed in range(20)]
    assert sum(table is not None and table.cells["test"]["B"].mark in "-+" for table in tables) <= 2


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


# ---- tables relative to a base ---------------------------------------------------------------------------------------
COSTS = Costs(60, 24)


def decided(ratio: float, noise: float = 0.004, sessions: int = 6, delta: float = 0.02) -> Decision:
    return compare(steady(ratio, noise, sessions), "A", "B", VerdictRule(delta), COSTS).decisions["qps"]


def test_every_cell_is_the_hands_own_division() -> None:
    """Of many versions, a run each: the value, two digits, `?`, and never a verdict."""
    draw, base = Random(1), "6.0-gcc"
    versions = [f"{6 + i // 3}.{i % 3}-{build}" for i in range(20) for build in ("gcc", "clang", "lto")]
    runs = {place: draw.uniform(50_000, 900_000) for place in product(("fillseq", "readww"), versions)}
    table = relative_table("qps", "small", base, {(t, v): (runs[t, v], runs[t, base]) for t, v in runs})
    lines = list(csv.DictReader(render_relative_tsv(table).splitlines(), delimiter="\t"))
    assert len(lines) == len(runs)
    for line in lines:
        assert float(line["ratio"]) == runs[line["test"], line["version"]] / runs[line["test"], base]
        assert (line["mark"], line["low"]) == (("base" if line["version"] == base else "?"), "NA")
    text = section_text(relative_section(table), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert f"{runs['readww', versions[7]] / runs['readww', base]:.2f}" in text
    assert "C" not in relative_table("qps", "h", "A", {("get", "B"): (90.0, 100.0)}).cells["get"]


def test_a_cell_has_its_interval_and_one_mark() -> None:
    table = relative_table("qps", "small", "10.5.5", {
        ("fillseq", "10.6.2"): decided(0.68), ("fillseq", "11.0"): decided(1.1),
        ("readrandom", "10.6.2"): decided(1.0), ("readrandom", "11.0"): decided(1.0, noise=0.2),
        ("overwrite", "10.6.2"): (501_181.0, 735_799.0),
    })  # fmt: skip
    marks = {row: {column: cell.mark for column, cell in cells.items()} for row, cells in table.cells.items()}
    assert marks == {
        "fillseq": {"10.5.5": "", "10.6.2": "-", "11.0": "+"},
        "readrandom": {"10.5.5": "", "10.6.2": "=", "11.0": "?"},
        "overwrite": {"10.5.5": "", "10.6.2": "?"},
    }
    assert table.marked == 2
    assert table.chance == pytest.approx(0.1)
    text = section_text(relative_section(table), 80)
    assert "of 2 cells marked - or + at most 0.1 are chance, on average" in text
    markdown = render_relative_markdown(table).splitlines()
    assert markdown[2] == "| test | 10.5.5 | 10.6.2 | 11.0 |"
    assert markdown[-3].startswith("| overwrite | 1.00 | 0.68 ? |  |")


def test_a_mean_is_over_one_family_and_all_of_its_rows() -> None:
    decisions = {("get", "B"): decided(0.9), ("multiget", "B"): decided(0.8), ("get", "C"): decided(1.0)}
    assert relative_table("qps", "h", "A", decisions).mean == {}
    mean = relative_table("qps", "h", "A", decisions, family="reads").mean
    assert set(mean) == {"B"}
    assert mean["B"].ratio == pytest.approx(math.sqrt(0.72), abs=0.01)
    assert mean["B"].mark == "-"
    of_two = [cell_of(one) for one in (decisions["get", "B"], decisions["multiget", "B"])]
    assert mean["B"].error == pytest.approx(math.hypot(*(cell.error or 0 for cell in of_two)) / 2)
    alone = geometric_mean([Cell(2.0, "?"), Cell(0.5, "?")], "qps", 0.02)
    assert alone.ratio == pytest.approx(1.0)
    assert (alone.mark, alone.low) == ("?", None)


def test_hosts_that_disagree_are_never_pooled() -> None:
    """fillseq of 11.x with gcc: 9 % slower on one host of three."""
    hosts = {"small": decided(1.0), "medium": decided(1.002), "large": decided(0.91)}
    found = agreement({name: cell_of(one) for name, one in hosts.items()}, "qps", 0.02)
    assert found.pooled is None and found.p < 0.001 and found.i_squared > 0.9
    assert (found.mark, found.holds, found.of) == ("=", 2, 3)
    line = "\n".join(agreement_lines({"fillseq": found}))
    assert line.startswith("fillseq: = on 2 of 3 hosts: small 1.00=, medium 1.00=, large 0.91-; they differ beyond")
    assert "together" not in line


def test_hosts_that_agree_have_one_ratio_nearer_than_any_of_them() -> None:
    cells = {
        f"h{i}": cell_of(compare(steady(0.95, 0.01, 6, seed=i), "A", "B", VerdictRule(), COSTS).decisions["qps"])
        for i in range(3)
    }
    found = agreement(cells, "qps", 0.02)
    assert found.pooled is not None and found.pooled.mark == "-" and found.pooled.error is not None
    assert found.pooled.error < min(cell.error or 0 for cell in cells.values())
    assert "- on 3 of 3 hosts" in "\n".join(agreement_lines({"get": found}))
    assert "all hosts together 0.95 [0.94, 0.96] -" in "\n".join(agreement_lines({"get": found}))
