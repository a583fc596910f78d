from __future__ import annotations

import csv
import math
from itertools import product
from random import Random

import pytest

from ground.results.differences import Cell, Decision, RelativeTable
from ioflame.analysis.compare.relative import agreement, cell_of, geometric_mean, relative_table
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare
from tests.ioflame.analysis.worlds import steady
from viz.export.relative_tables import render_relative_markdown, render_relative_tsv
from viz.terminal.relative import render_agreement, render_relative

COSTS = Costs(60, 24)


def decided(ratio: float, noise: float = 0.004, sessions: int = 6, delta: float = 0.02) -> Decision:
    return compare(steady(ratio, noise, sessions), "A", "B", VerdictRule(delta), COSTS).decisions["qps"]


def test_every_cell_is_the_hands_own_division() -> None:
    """20 versions x 3 builds x 3 hosts x 5 tests, a run each: the value, two digits, `?`, and never a verdict."""
    draw = Random(1)
    versions = [f"{6 + i // 3}.{i % 3}-{build}" for i in range(20) for build in ("gcc", "clang", "lto")]
    tests = ["fillseq", "readrandom", "fwdrange", "readww", "overwrite"]
    for host in ("small", "medium", "large"):
        runs = {place: draw.uniform(50_000, 900_000) for place in product(tests, versions)}
        base = versions[0]
        table = relative_table("qps", host, base, {(t, v): (runs[t, v], runs[t, base]) for t, v in runs})
        lines = list(csv.DictReader(render_relative_tsv(table).splitlines(), delimiter="\t"))
        assert len(lines) == len(runs)
        for line in lines:
            of_base, here = runs[line["test"], base], runs[line["test"], line["version"]]
            assert float(line["ratio"]) == here / of_base
            assert (line["mark"], line["low"]) == (("base" if line["version"] == base else "?"), "NA")
        text = render_relative(table, 80)
        assert max(map(len, text.splitlines())) <= 80
        assert f"{runs['readww', versions[7]] / runs['readww', base]:.2f}" in text


def test_a_cell_has_its_interval_and_one_mark() -> None:
    table = relative_table(
        "qps", "small", "10.5.5",
        {
            ("fillseq", "10.6.2"): decided(0.68), ("fillseq", "11.0"): decided(1.1),
            ("readrandom", "10.6.2"): decided(1.0), ("readrandom", "11.0"): decided(1.0, noise=0.2),
            ("overwrite", "10.6.2"): (501_181.0, 735_799.0),
        },
    )  # fmt: skip
    marks = {row: {column: cell.mark for column, cell in cells.items()} for row, cells in table.cells.items()}
    assert marks == {
        "fillseq": {"10.5.5": "", "10.6.2": "-", "11.0": "+"},
        "readrandom": {"10.5.5": "", "10.6.2": "=", "11.0": "?"},
        "overwrite": {"10.5.5": "", "10.6.2": "?"},
    }
    assert table.marked == 2
    assert table.chance == pytest.approx(0.1)
    text = render_relative(table)
    assert "of 2 cells marked - or + at most 0.1 are chance, on average" in text
    markdown = render_relative_markdown(table).splitlines()
    assert markdown[2] == "|  | 10.5.5 | 10.6.2 | 11.0 |"
    assert markdown[-4].startswith("| overwrite | 1.00 | 0.68 ? |  |")


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
    assert found.pooled is None
    assert found.p < 0.001
    assert found.i_squared > 0.9
    assert (found.mark, found.holds, found.of) == ("=", 2, 3)
    line = render_agreement({"fillseq": found}, 200)
    assert line.startswith("fillseq: = on 2 of 3 hosts: small 1.00=, medium 1.00=, large 0.91-; they differ beyond")
    assert "together" not in line


def test_hosts_that_agree_have_one_ratio_nearer_than_any_of_them() -> None:
    cells = {
        f"h{i}": cell_of(compare(steady(0.95, 0.01, 6, seed=i), "A", "B", VerdictRule(), COSTS).decisions["qps"])
        for i in range(3)
    }
    found = agreement(cells, "qps", 0.02)
    assert found.pooled is not None
    assert found.pooled.mark == "-"
    assert found.pooled.error is not None
    assert found.pooled.error < min(cell.error or 0 for cell in cells.values())
    assert "- on 3 of 3 hosts" in render_agreement({"get": found})
    assert "all hosts together 0.95 [0.94, 0.96] -" in render_agreement({"get": found}, None)


def test_an_unknown_run_is_no_cell() -> None:
    table: RelativeTable = relative_table("qps", "h", "A", {("get", "B"): (90.0, 100.0)})
    assert "C" not in table.cells["get"]
    assert table.cells["get"]["B"] == Cell(0.9, "?")
