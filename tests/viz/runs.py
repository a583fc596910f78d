"""A whole run made in code, as a report is fed with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ground.results.categories import Categories, Category
from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.files import Files
from ground.results.findings import Finding
from ground.results.interval import Interval
from ground.results.record import RunRecord, Window
from ground.results.run import Run
from ioflame.analysis.categories import costed, cpu_profiled
from ioflame.analysis.compare.runs import apart
from tests.records import profile_facts, window
from tests.viz.samples import CATEGORIES, stacks
from viz.flame.stacks import Stack
from viz.page.report import render_report
from viz.page.run_view import Observed, RunView

LEAVES = (("k:device", "kernel: devices"), ("filter probe", "bits of filters"), ("engine", "the rest"), ("other", ""))
FOUND = [
    Finding("doorbell", "28.1 [27.0, 29.2] of 54.1 us of CPU are <one> function.", Interval(28.1, 27.0, 29.2, 900),
            "iowrite16", "another disk", "the source", "graph"),
    Finding("run queue", "7.5 [6.2, 8.7] of 76.1 us a query wait.", Interval(7.5, 6.2, 8.7, 5042), "",
            "CPUS=", "bpf", "waits"),
]  # fmt: skip
# 30 s of QPS that no two shifts fit, and windows that counted from second 3 on
RATES = [9000 + 137 * (i * i % 23) for i in range(30)]
# us per query; another than that of the samples.
CPU = 20.0
REPORT = "db_bench.report.csv"
FOLDED = b"db_bench;start_thread;rocksdb::DBImpl::Get;__libc_pread;vfs_read_[k] 600\ndb_bench;start_thread;x 400\n"


def leaf_of(some: Sequence[Stack]) -> dict[tuple[str, ...], str]:
    def kind(stack: Stack) -> str:
        leaf = stack.frames[-1]
        return "k:device" if leaf.endswith("_[k]") else "filter probe" if "Bloom" in leaf else "engine"

    return {stack.frames: kind(stack) for stack in some}


def categories(view: str, names: Sequence[tuple[str, str]], some: Sequence[Stack], of: dict[Any, str]) -> Categories:
    total = sum(stack.weight for stack in some)
    rows = []
    for name, label in names:
        mine = [stack for stack in some if of[stack.frames] == name]
        weight = sum(stack.weight for stack in mine)
        samples = [stack.samples for stack in mine]
        n = None if None in samples else sum(count or 0 for count in samples)
        rows.append(Category(name, label, weight, 100 * weight / total if total else 0.0, n))
    return Categories(view, ["7.8.3"], total, rows, [])


def record(**changes: Any) -> RunRecord:
    windows = []
    for kind, first, last in (("warm-up", 3, 6), ("plain", 6, 14), ("perf", 14, 20), ("plain", 20, 28)):
        queries = sum(RATES[first:last])
        windows.append(window(kind, last - first, "", 500 + first, queries=queries, cpu_ns=20_000 * queries,
                              user_ns=8_000 * queries, system_ns=12_000 * queries, storage_reads=queries))  # fmt: skip
    given: dict[str, Any] = {
        "schema": 1,
        "ioflame": "0.1.0",
        "created": "2026-11-20T19:30:27+0000",
        "workload": "readrandom",
        "engine": "rocksdb",
        "threads": 1,
        "options": {"scale": "smoke", "out": "runs"},
        "host": {"cpus": "2", "cpu": "Model", "kernel": "6.1", "distribution": "Debian", "hypervisor": "yes"},
        "tools": {"engine": "7.8.3", "perf": "6.1", "engine_assertions": "yes"},
        "database": DatabaseFacts(description="1,000 keys", device="vda"),
        "windows": windows,
        "profile": profile_facts(why=["no hardware counter"], samples=105, weight=1_000_000_000),
        "metrics": {"qps": 10000.0, "cpuPer": CPU, "usPer": 8.0, "syPer": 12.0, "readsPerQuery": 0.5, "rx.lat": 100.0},
        "checks": [
            Check("coverage", Verdict.OK, "92%"),
            Check("observer", Verdict.WARN, "QPS +11.4%", "not quite the same workload"),
            Check("samples", Verdict.NOTE, "105", "few", "a larger DURATION"),
        ],
    }
    return RunRecord(**{**given, **changes})


def saved(parent: Path) -> Run:
    """It on disk, with its stacks and the client's report."""
    run = Run.create(parent, record())
    run.path(Files.FOLDED).write_bytes(FOLDED)
    run.path(Files.SAMPLE_COUNTS).write_bytes(FOLDED.replace(b"00\n", b"\n"))
    lines = ["secs_elapsed,interval_qps", *(f"{i + 1},{rate}" for i, rate in enumerate(RATES))]
    run.path(REPORT).write_text("\n".join(lines) + "\n")
    return run


def series() -> list[Window]:
    """Seconds 6 to 28 of RATES, as counters: half a read for each query, 80 us in the device."""
    made = []
    for second in range(6, 28):
        rate = RATES[second]
        kind = "perf" if 14 <= second < 20 else "plain"
        latency = {"storage_reads": rate // 2, "storage_read_ms": rate // 2 * 80 / 1000}
        cpu = {"user_ns": 8_000 * rate, "system_ns": 12_000 * rate}
        made.append(window(kind, 1, "", 500 + second, queries=rate, **latency, **cpu))
    return made


def view(
    some: Sequence[Stack] | None = None,
    name: str = "run-a",
    observed: Observed | None = None,
    findings: Sequence[Finding] = (),
    **changes: Any,
) -> RunView:
    used = stacks() if some is None else list(some)
    leaves = leaf_of(used)
    owners = {stack.frames: stack.category for stack in used}
    made = record(**changes)
    return RunView(
        name,
        made,
        costed(categories("owner", CATEGORIES, used, owners), made),
        costed(categories("leaf", LEAVES, used, leaves), made),
        used,
        leaves,
        list(RATES),
        series(),
        findings=findings,
        observed=observed or Observed(),
        us_per_query=cpu_profiled(made)[0],
    )


def page_of(views: Sequence[RunView]) -> str:
    """The page of several runs, as `ioflame report` makes it."""
    return render_report(views, apart([one.record for one in views]) if len(views) > 1 else None)
