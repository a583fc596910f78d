"""Published tables of block caches, mmap, RocksDB's wiki and mixgraph, by the experiments' own columns and proofs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from ioflame.analysis.cells import judge
from tests.ioflame.analysis.test_cells import experiment, table
from workloads.cells import Cells
from workloads.engines.rocksdb.mixgraph import closing_figures, keys_read, lru_hit_rate
from workloads.releases import older


def value(of: Cells, column: str, figures: Mapping[str, float]) -> float:
    """A column of made-up figures, whose names are the ends of the real ones."""
    one = next(one for one in of.columns if one.name == column)
    known = {name: v for name in [*one.part, *one.per] for end, v in figures.items() if name.endswith(f".{end}")}
    found = one.value(known)
    assert found is not None, (column, known)
    return found


def test_published_vmstat_rows_do_not_add_up_and_the_switches_hold() -> None:
    of = experiment("block-cache")
    lru, clock = table("11-vmstat.tsv")
    for row, whole in ((lru, 82.9), (clock, 113.4)):
        ticks = {name: float(row[name]) for name in ("us", "sy", "id", "wa")}
        ticks |= {"st": 0.0, "all": 100.0}
        assert value(of, "us+sy", ticks) == pytest.approx(float(row["us+sy"]))
        # `id` as printed cannot be right: our column has to be 100.
        assert value(of, "sum", ticks) == pytest.approx(whole)
    hold = next(hold for hold in of.holds if hold.column == "own cs")
    switches: dict[str, float | None] = {"lru": float(lru["cs"]), "hyper clock": float(clock["cs"])}
    assert judge(hold.proof, switches, {}, hold.low, hold.high).holds
    assert not judge(hold.proof, dict.fromkeys(switches, 2360.0), {}, hold.low, hold.high).holds


def test_the_published_queries_of_the_caches_rank_as_ours_have_to() -> None:
    hold = next(hold for hold in experiment("block-cache").holds if hold.column == "qps")
    rows = table("11-lru-hyperclock.tsv")
    (row,) = (row for row in rows if row["threads"] == "1" and row["test"] == "readww")
    assert judge(hold.proof, {"lru": float(row["lru_qps"]), "clock": float(row["hcc_qps"])}, {}, 0.0, 0.0).holds


def test_published_mmap_reads_more_and_its_order_is_the_one_that_has_to_hold() -> None:
    of = experiment("mmap")
    pread, mmap = table("14-mmap-io.tsv")
    kib = {name: float(row["rkb_per_q"]) for name, row in (("mmap", mmap), ("pread", pread))}
    hold = next(hold for hold in of.holds if hold.column == "KiB/query" and hold.proof == "ratio" and hold.low == 5.0)
    assert judge(hold.proof, dict(kib), {}, hold.low, hold.high).holds
    ranks = {row["cell"].replace("-", ", "): float(row["rank"]) for row in table("14-mmap.tsv")}
    assert ranks.keys() == {cell.name for cell in of.cells if "IO-bound" not in cell.name}
    orders = [hold for hold in of.holds if hold.column == "qps"]
    for hold in orders:
        assert judge(hold.proof, {cell: ranks[cell] for cell in hold.cells}, {}, hold.low, hold.high).holds, hold.what
    assert len(orders) == 3


def test_what_the_published_table_found_follows_from_what_it_wrote() -> None:
    of = experiment("wiki")
    rows = {(row["test"], row["variant"], row["value"]): row for row in table("write-amplification.tsv")}
    keys, seconds = 900e6, 5400
    blocks = ("4K", "8K", "16K")
    for block in blocks:
        overwritten = float(rows["overwrite", block, "400"]["ops/sec"]) * seconds
        predicted = value(of, "predicted", {"keys_written": keys + overwritten, "num_keys": keys})
        for test in ("readwhilewriting", "readrandom"):
            row = rows[test, block, "400"]
            found = float(row["mb/sec"]) * 2**20 / (float(row["ops/sec"]) * 420)
            hold = next(hold for hold in of.holds if hold.other == "predicted")
            assert judge(hold.proof, {block: found}, {block: predicted}, hold.low, hold.high).holds, (test, block)
    # A load of as many keys as there are leaves 37 % of them out.
    assert value(of, "predicted", {"keys_written": keys, "num_keys": keys}) == pytest.approx(0.632, abs=0.001)
    gets: dict[str, float | None] = {b: float(rows["readrandom", b, "400"]["ops/sec"]) for b in blocks}
    assert judge("falls", gets, {}, 0.0, 0.0).holds
    du: dict[str, float | None] = {b: float(rows["bulkload", b, "400"]["du"]) for b in blocks}
    assert judge("falls", du, {}, 0.0, 0.0).holds
    for block in blocks:
        row = rows["bulkload", block, "400"]
        figures = {"sum_gb": float(row["Sum_GB"]), "flushed_gb": float(row["L0_GB"])}
        assert value(of, "W-Amp", figures) == float(row["W-Amp"])
    overwrites = [hold for hold in of.holds if "overwritten" in hold.what or "rewritten" in hold.what]
    assert overwrites
    for hold in overwrites:
        amplified: dict[str, float | None] = {b: float(rows["overwrite", b, "400"]["W-Amp"]) for b in ("8K", "4K")}
        assert judge(hold.proof, amplified, {}, hold.low, hold.high).holds


def test_published_key_laws_of_mixgraph_read_what_their_flags_make_them_read() -> None:
    of = experiment("mixgraph")
    cells = {cell.name.removesuffix(", Gets, cache 6.2 %"): cell for cell in of.cells if "Gets, cache 6.2" in cell.name}
    names = {"prefix_random": "prefix_random as published"}
    hits = {}
    for row in table("17-mixgraph.tsv"):
        cell = cells[names.get(row["config"], row["config"])]
        flags = {name: str(flag) for name, flag in cell.flags.items()} | {"num": "200000"}
        asked = dict(word[2:].split("=") for word in row["flags_as_run"].split() if word.startswith("--"))
        wanted = {name: float(text) for name, text in asked.items() if name.startswith("key")}
        assert {name: float(flags.get(name, "1")) for name in wanted} == wanted, row["config"]
        drawn = keys_read(flags, random.Random(5))
        read = [next(drawn) for _ in range(20_000)]
        there = sum(0 <= key < 200_000 for key in read) / len(read)
        assert there == pytest.approx(float(row["found"].split()[0].lstrip("~")), abs=0.02), row["config"]
        # Of a law that is not uniform some key comes far more often than once in 200,000 draws.
        hottest = max(Counter(read).values())
        assert (hottest < 10) == (row["keys_read"] == "uniform"), (row["config"], hottest)
        blocks = (key // 50 for key in drawn if 0 <= key < 200_000)
        hits[row["config"]] = lru_hit_rate(blocks, 250, 20_000)
    assert hits["all_random"] == pytest.approx(250 / 4000, abs=0.01)
    assert hits["prefix_dist"] > 5 * hits["all_random"] < 5 * hits["all_dist"]


def test_the_closing_line_of_mixgraph_is_read_by_its_words() -> None:
    line = (
        "mixgraph     :       7.893 micros/op 126591 ops/sec 3.160 seconds 400000 operations;    8.9 MB/s "
        "( Gets:400000 Puts:0 Seek:0, reads 199964 in 400000 found, avg size: -nan value, -nan scan)\n"
    )
    assert closing_figures(line) == {"gets": 4e5, "puts": 0.0, "seeks": 0.0, "found": 199964.0, "reads": 4e5}
    assert closing_figures("readrandom : 1 micros/op (5 of 5 found)") == {}
    assert [older(a, "8.6") for a in ("7.8.3", "8.6.0", "10.2.1")] == [True, False, False]
