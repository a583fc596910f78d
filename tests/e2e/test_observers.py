"""What every observer of the recorded run saw, each in its turns or its window."""

from __future__ import annotations

import re

import pytest

from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import STAGES, read_ladder
from ground.results.off_cpu import read_off_cpu, read_run_queue, read_wall_clock
from ground.results.request_attribution import read_attribution
from ground.results.run import Run
from ground.text.columns import cells
from ground.text.titles import title_of
from tests.recorded_run import ALL, Measured
from viz.figures import watching_words


@pytest.fixture
def run(finished: Measured) -> Run:
    return finished.run


def counted(run: Run, kind: str, counter: str) -> int:
    """Of all windows of an observer."""
    return sum(getattr(window.counters, counter) for window in run.record.of_kind(kind))


def test_every_file_is_there_and_nothing_is_missing(run: Run) -> None:
    assert (run.record.missing, run.record.unobserved) == ([], [])
    files = {
        *("db_bench.log", Files.RECORD, Files.SUMMARY, Files.REPORT, Files.PERF_DATA, Files.CATEGORIES, Files.FOLDED),
        *(Files.FLAMEGRAPH, Files.PPROF, Files.IO_LATENCY, Files.LADDER, Files.OFF_CPU, Files.OFF_CPU_DATA),
        *(Files.OFF_CPU_FLAMEGRAPH, Files.PROFILE, Files.OFF_CPU_PROFILE, Files.PMP_PROFILE, Files.RUN_QUEUE),
        *(Files.REQUEST_ATTRIBUTION, Files.REQUESTS, Files.REQUEST_ROWS, Files.REQUEST_STACKS, Files.STORED_FILES),
        *(Files.WALL_CLOCK, Files.PMP, Files.PMP_DATA, Files.PMP_FOLDED, Files.PMP_FLAMEGRAPH, Files.LOCKS),
    }
    assert {name for name in files if not run.path(name).stat().st_size} == set()
    for start in ("iolat", "ladder", "on-CPU + off-CPU", "pmp", "requests"):
        assert [check for check in run.record.checks if check.name.startswith(start)], f"no check of {start}"


def test_the_observers_windows_are_those_of_the_run(run: Run) -> None:
    for kind, seen in (
        ("iolat", read_io_latency(run.path(Files.IO_LATENCY))),
        ("ladder", read_ladder(run.path(Files.LADDER))),
        ("offcpu", read_off_cpu(run.path(Files.OFF_CPU))),
        ("runqlat", read_run_queue(run.path(Files.RUN_QUEUE))),
        ("requests", read_attribution(run.path(Files.REQUEST_ATTRIBUTION))),
    ):
        # Opened just before the counters are read, and closed just after; requests alone have a window of their own.
        own = getattr(seen, "turns", [])
        assert bool(own) == (kind != "requests")
        turns = own or [(seen.start_ns, seen.end_ns)]
        for (begin, end), around in zip(turns, run.record.of_kind(kind), strict=True):
            assert begin <= around.start_ns < around.end_ns <= end


def test_whose_reads_are_those_of_the_tables_and_have_a_reason(run: Run) -> None:
    attribution = read_attribution(run.path(Files.REQUEST_ATTRIBUTION))
    reads = [row for row in attribution.of("read") if row.submitter == "process"]
    tables = attribution.count(row for row in reads if row.kind == "sst" and row.level is not None and row.holds)
    assert tables >= 0.99 * attribution.count(reads) > 0
    # A workload of Gets; reads whose stacks give no reason are `other`.
    found = [row for row in attribution.reasons if row.operation == "read"]
    assert sum(row.requests for row in found if row.reason == "get") >= 0.9 * sum(row.requests for row in found)


def test_iolat_has_the_processes_own_reads(run: Run) -> None:
    latency = read_io_latency(run.path(Files.IO_LATENCY))
    row, unseen = latency.row("read", "process"), latency.losses["no_end"]
    # Its gate is wider than the window, so it has all of the window's and a few more.
    assert row.total.count + unseen >= 0.98 * counted(run, "iolat", "read_calls")
    assert row.total.count > unseen
    assert row.total.sum_ns == row.queue.sum_ns + row.device.sum_ns


def test_each_wake_up_of_a_reader_is_a_wait_for_a_cpu(run: Run) -> None:
    queue = read_run_queue(run.path(Files.RUN_QUEUE))
    # A thread that gave its CPU up is woken once before it runs again, seen or not. The gate is wider than the window.
    woken, unseen = queue.waits["woken"].count, queue.losses["no_start"]
    assert woken + unseen >= 0.98 * counted(run, "runqlat", "voluntary_switches") > 0
    assert woken > unseen


def test_the_stages_from_the_engine_to_the_device_are_the_whole_of_each_query(run: Run) -> None:
    ladder = read_ladder(run.path(Files.LADDER))
    assert ladder.start == "query" and [rung.name for rung in ladder.stages] == list(STAGES)
    assert {rung.count for rung in ladder.stages} == {ladder.total.count}
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns > 0
    assert "Latency from the engine to the device" in run.path(Files.SUMMARY).read_text()


def test_the_summary_fits_a_hundred_columns(run: Run) -> None:
    lines = run.path(Files.SUMMARY).read_text().split("\n")
    assert [line for line in lines if cells(line) > 100] == []
    # No table is folded: a figure alone on a line would be the end of the row above it.
    assert [line for line in lines if re.fullmatch(r"\s+[\d.,%]+", line)] == []


def test_the_wall_clock_by_category_is_all_that_was_seen_on_and_off_the_cpu(run: Run) -> None:
    off, clock = read_off_cpu(run.path(Files.OFF_CPU)), read_wall_clock(run.path(Files.WALL_CLOCK))
    # Both are from switch to switch, by the same clock as the threads' lives.
    assert off.ran_ns + off.off_ns == pytest.approx(off.elapsed_ns, rel=0.02)
    assert off.ran_ns > 0 and off.off_ns > 0 and clock.queries
    assert clock.unseen_ns == pytest.approx(0, abs=0.02 * clock.elapsed_ns)
    on_cpu = {row.category: row.ns for row in clock.rows if row.state == "on-CPU"}
    # perf's categories, scaled to the time on a CPU: each is rounded.
    assert sum(on_cpu.values()) == pytest.approx(clock.ran_ns, abs=len(on_cpu))
    assert "libc+k" in on_cpu and len(on_cpu) > 3
    assert clock.elapsed_ns + clock.idle_ns + clock.background_ns == off.elapsed_ns
    for row in clock.rows:
        assert row.us_per_query == pytest.approx(row.ns / 1e3 / clock.queries)


def test_each_observer_has_its_cost_and_so_has_none_at_all(run: Run) -> None:
    assert sorted(cost.kind for cost in run.record.costs) == sorted(ALL)
    # A screen that is full leaves this line out (tests/viz/test_screen.py); the table of the summary stays.
    host = run.record.host_change
    changed = host is not None and host.qps_ratio.leaves_one
    assert changed or all(title_of(name) in watching_words(run.record) for name in ALL)
    summary = run.path(Files.SUMMARY).read_text()
    table = summary[summary.index("Observers:") :]
    for name in ALL:
        # Where this host changed QPS by itself, no other cost is known.
        cost = (
            " +- "
            if changed and host is not None and name != host.kind
            else r" +[+-]\d+\.\d % +[+-]\d+\.\d % to [+-]\d+\.\d % "
        )
        assert re.search(rf"^ +{title_of(name)}{cost}", table, re.MULTILINE), name
