"""Whose CPU and whose operations: threads told apart by role, and the writer's operations taken off the queries."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.queries import QueryReportWithWriter, queries_by_second
from ground.results.checks import Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.metrics import window_metrics
from ground.results.off_cpu import OffStack
from ground.results.record import Expectation, RoleCounters, Target
from ground.results.roles import operations_at, role_figures, roles_of_threads
from ioflame.analysis.categories import cpu_of_all_roles
from ioflame.analysis.checks.writes import write_proofs
from ioflame.analysis.wall_clock import serving_threads, wall_clock
from tests.records import run_record, window
from tests.viz import observers
from viz.tables.off_cpu import wall_clock_section
from viz.terminal.table import section_text
from workloads.engines.rocksdb.engine import RocksDB

BACKGROUND = {"low": "compaction", "high": "flush"}
# The main thread 10, a reporter 13, then the client's: the first of them is the writer.
NAMES = {10: "bench", 11: "low0", 12: "high0", 13: "bench", 14: "bench", 15: "bench", 16: "bench", 17: "low1"}


def test_a_writer_is_the_first_thread_that_the_client_starts_for_its_queries() -> None:
    roles = roles_of_threads(BACKGROUND, 2, with_writer=True, writes=False)(NAMES, 10)
    assert roles == {10: "other", 11: "compaction", 12: "flush", 13: "other", 14: "writer", 15: "reader", 16: "reader",
                     17: "compaction"}  # fmt: skip
    alone = roles_of_threads(BACKGROUND, 3, with_writer=False, writes=True)(NAMES, 10)
    assert [tid for tid, role in alone.items() if role == "writer"] == [14, 15, 16]
    # The threads of a client that names them have their roles by name alone.
    named = roles_of_threads({**BACKGROUND, "r": "reader"}, 0, with_writer=False, writes=False)
    assert named({10: "bench", 11: "low0", 13: "bench", 14: "r 0"}, 10)[14] == "reader"
    assert "writer" not in named(NAMES, 10).values()


def test_cpu_per_query_is_that_of_the_readers_and_the_others_are_rows_of_their_own() -> None:
    roles = {
        "reader": RoleCounters(3_000_000, 2_000_000, 1_000_000, 1),
        "writer": RoleCounters(500_000, 400_000, 100_000, 4000),
        "compaction": RoleCounters(1_500_000, 1_500_000, 0, 7),
    }
    one = window("plain", 2.0, queries=1000.0, cpu_ns=5_000_000, roles=roles)
    figures = window_metrics([one], 2)
    assert (figures["cpuPer"], figures["usPer"], figures["syPer"]) == (3.0, 2.0, 1.0)
    rows = {figure.role: figure for figure in role_figures([one])}
    assert list(rows) == ["reader", "compaction", "writer"]
    assert cpu_of_all_roles(run_record(windows=[one])) == 5.0
    assert (rows["writer"].us_per_query, rows["writer"].write_calls, rows["compaction"].share) == (0.5, 2000.0, 0.3)
    # Without roles all of it is the queries'.
    assert window_metrics([window("plain", 2.0, queries=1000.0, cpu_ns=5_000_000)], 2)["cpuPer"] == 5.0


def test_a_writers_operations_are_no_queries(tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    lines = [(1.5, 6000), (2.5, 10_000)]
    counted = QueryReportWithWriter(report, RocksDB().parse_report, lambda: lines)
    # A line's moment is the file's.
    begun = time.time_ns()
    for second, text in enumerate(("secs_elapsed,interval_qps\n", "secs_elapsed,interval_qps\n1,15000\n")):
        report.write_text(text)
        os.utime(report, ns=(begun, begun + second * 1_000_000_000))
        counted.poll()
    started = counted.started_ns
    assert started is not None
    assert counted.at(started + 500_000_000) == pytest.approx(7500 - 2000, abs=20)
    assert operations_at(lines, 2.0) == 8000
    assert operations_at(lines, 2.6) is None  # no line of the writer tells
    assert queries_by_second([15_000, 14_000, 13_000], lines) == [11_000, 10_000]


def proofs(
    closing: float, rates: list[int], writer: int, seconds: float = 10.0, calls: int = 2, counts_stalls: bool = True
) -> dict[str, Verdict]:
    record = run_record("x", expected=Expectation(tree="changing", write_rate=2 << 20))
    record.database = DatabaseFacts(data_bytes=420000, num_keys=1000)
    record.engine_result = {"operations": closing}
    record.writes = {"stall_seconds": 0.0, "uptime": seconds}
    roles = {"reader": RoleCounters(1, 1, 0, calls), "writer": RoleCounters(1, 1, 0, writer)}
    record.windows = [window("plain", 1.0, roles=roles)]
    totals = {0: [(seconds, writer)], 1: [(seconds, int(closing) - 500)]}
    queries = queries_by_second(rates, totals[0])
    return {check.name: check.verdict for check in write_proofs(record, queries, totals, counts_stalls)}


def test_what_a_writing_workload_has_to_prove() -> None:
    # 4993 operations of 420 bytes are 2 MiB.
    good = proofs(100_000, [14_993] * 10, 49_930)
    assert set(good.values()) == {Verdict.OK}
    assert set(good) == {"write rate", "readers' operations", "the writer's thread", "stalls"}
    # The writer's operations left among the queries: more than the readers themselves claim.
    assert proofs(100_000, [14_993] * 10, 1_000)["readers' operations"] is Verdict.FAILED
    # Operations that are lost.
    assert proofs(100_000, [8_000] * 10, 49_930)["readers' operations"] is Verdict.FAILED
    assert proofs(100_000, [14_993] * 10, 49_930, seconds=12.0)["write rate"] is Verdict.WARN
    assert proofs(100_000, [14_993] * 10, 49_930, calls=40_000)["the writer's thread"] is Verdict.FAILED
    assert list(write_proofs(run_record("x"), [1], {}, True)) == []
    # Stalls are asked of an engine that counts them.
    assert proofs(100_000, [14_993] * 10, 49_930, counts_stalls=False)["stalls"] is Verdict.NOTE


def test_a_target_is_waited_for_by_the_threads_that_its_service_does_not_know_to_serve_nobody() -> None:
    """Two clients and a compaction: time of three of them by the queries of two would be no query's."""
    off = observers.off_cpu()
    assert [one.tid for one in serving_threads(off, run_record())] == [1, 2]
    # A writer beside the readers waits for its log: a Get's latency does not contain that wait.
    with_writer = replace(run_record(), roles={"reader": [2], "writer": [1], "compaction": [3]})
    assert [one.tid for one in serving_threads(off, with_writer)] == [2]
    working = replace(off.threads[2], voluntary=5000)
    off = replace(off, threads=[*off.threads[:2], working])
    target = Target("--pid 42", "db_bench", [42], groups={"db_bench": [1, 2], "compaction": [3]})
    attached = run_record("x", threads=3, target=target)
    assert [one.tid for one in serving_threads(off, attached)] == [1, 2]
    postgresql = replace(attached, engine="postgresql", target=replace(target, groups={"walwriter": [2, 3]}))
    assert [one.tid for one in serving_threads(off, postgresql)] == [1]

    stacks = [OffStack(tid, "x", "io", ("f",), 10**6, 1) for tid in (1, 3)]
    clock = wall_clock(off, stacks, None, 1000, background={3})
    assert (clock.threads, clock.elapsed_ns, clock.background_threads, clock.idle_threads) == (2, 2 * 10**9, 1, 0)
    assert [(row.state, row.ns) for row in clock.rows] == [("on-CPU", 500_000_000), ("io", 10**6)]
    assert "left out: 1 background thread (they serve no query; 1.000 s)" in section_text(wall_clock_section(clock))
