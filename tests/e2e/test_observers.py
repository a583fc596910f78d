"""What every observer of one profile saw, each in its window."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import STAGES, read_ladder
from ground.results.off_cpu import read_off_cpu, read_run_queue, read_wall_clock
from ground.results.record import ANALYSIS, RunRecord, Window
from ground.results.run import Run
from ground.results.whose import read_whose
from ground.text.columns import cells
from tests.e2e.conftest import ALL, Finished
from viz.figures import watching_words

pytestmark = [pytest.mark.alone, pytest.mark.needs("perf", "db_bench", "co-re")]


@pytest.fixture
def observed(finished: Finished) -> tuple[str, Run]:
    """What a profile with every observer printed, and its run."""
    return finished.out, Run(finished.directory, finished.record)


def checks_of(record: RunRecord, start: str) -> list[Check]:
    return [check for check in record.checks if check.name.startswith(start)]


def window(record: RunRecord, kind: str) -> Window:
    (found,) = [window for window in record.windows if window.kind == kind]
    return found


def test_every_file_is_there_and_nothing_is_missing(observed: tuple[str, Run]) -> None:
    run = observed[1]
    assert (run.record.missing, run.record.unobserved) == ([], [])
    files = {
        *(Files.RECORD, Files.SUMMARY, Files.REPORT, Files.PERF_DATA, Files.CATEGORIES, Files.FLAMEGRAPH),
        *(Files.IO_LATENCY, Files.LADDER, Files.OFF_CPU, Files.OFF_CPU_DATA, Files.OFF_CPU_FLAMEGRAPH),
        *(Files.PROFILE, Files.OFF_CPU_PROFILE, Files.PMP_PROFILE, Files.RUN_QUEUE),
        *(Files.WHOSE, Files.REQUESTS, Files.REQUEST_ROWS, Files.REQUEST_STACKS, Files.STORED_FILES),
        *(Files.WALL_CLOCK, Files.PMP, Files.PMP_DATA, Files.PMP_FOLDED, Files.PMP_FLAMEGRAPH, Files.LOCKS),
    }
    assert {name for name in files if not run.path(name).stat().st_size} == set()


def test_no_check_of_an_observer_failed(observed: tuple[str, Run]) -> None:
    record = observed[1].record
    for start in ("iolat", "ladder", "on-CPU + off-CPU", "pmp", "whose"):
        found = checks_of(record, start)
        assert found, f"no check of {start}"
        assert [check for check in found if check.verdict in (Verdict.FAILED, Verdict.BLOCKED)] == []


def test_the_observers_windows_are_those_of_the_run(observed: tuple[str, Run]) -> None:
    run = observed[1]
    iolat, ladder = read_io_latency(run.path(Files.IO_LATENCY)), read_ladder(run.path(Files.LADDER))
    off, queue = read_off_cpu(run.path(Files.OFF_CPU)), read_run_queue(run.path(Files.RUN_QUEUE))
    whose = read_whose(run.path(Files.WHOSE))
    for kind, opened, closed in (
        ("iolat", iolat.start_ns, iolat.end_ns),
        ("ladder", ladder.start_ns, ladder.end_ns),
        ("offcpu", off.start_ns, off.end_ns),
        ("runqlat", queue.start_ns, queue.end_ns),
        ("whose", whose.start_ns, whose.end_ns),
    ):
        # Opened just before the counters are read, and closed just after.
        around = window(run.record, kind)
        assert opened <= around.start_ns < around.end_ns <= closed


def test_whose_reads_are_those_of_the_tables_and_have_a_reason(observed: tuple[str, Run]) -> None:
    run = observed[1]
    whose = read_whose(run.path(Files.WHOSE))
    reads = [row for row in whose.of("read") if row.submitter == "process"]
    tables = whose.count(row for row in reads if row.kind == "sst" and row.level is not None and row.holds)
    assert tables >= 0.99 * whose.count(reads) > 0
    # A workload of Gets; reads whose stacks give no reason are `other`.
    found = [row for row in whose.reasons if row.operation == "read"]
    assert sum(row.requests for row in found if row.reason == "get") >= 0.9 * sum(row.requests for row in found)


def test_iolat_has_the_processes_own_reads(observed: tuple[str, Run]) -> None:
    run = observed[1]
    latency = read_io_latency(run.path(Files.IO_LATENCY))
    row, unseen = latency.row("read", "process"), latency.losses["no_end"]
    # Its gate is wider than the window, so it has all of the window's and a few more.
    assert row.total.count + unseen >= 0.98 * window(run.record, "iolat").counters.read_calls
    assert row.total.count > unseen
    assert row.total.sum_ns == row.queue.sum_ns + row.device.sum_ns


def test_each_wake_up_of_a_reader_is_a_wait_for_a_cpu(observed: tuple[str, Run]) -> None:
    run = observed[1]
    queue, counted = read_run_queue(run.path(Files.RUN_QUEUE)), window(run.record, "runqlat").counters
    # A thread that gave its CPU up is woken once before it runs again, seen or not. The gate is wider than the window.
    woken, unseen = queue.waits["woken"].count, queue.losses["no_start"]
    assert woken + unseen >= 0.98 * counted.voluntary_switches > 0
    assert woken > unseen
    table = run.path(Files.SUMMARY).read_text().partition("Waits for a CPU (us; ")[2].partition("\n\n")[0]
    assert re.search(rf"^woken +{queue.waits['woken'].count:,} ", table, re.MULTILINE)
    page = run.path(Files.REPORT).read_text()
    # Records of single queries were not asked for.
    assert "<h3>Run queue</h3>" in page and re.findall(r"Not shown: ([^<\n]*)", page) == ["Slow queries."]


def test_the_parts_of_the_ladder_add_up(observed: tuple[str, Run]) -> None:
    ladder = read_ladder(observed[1].path(Files.LADDER))
    assert ladder.start == "query"
    assert [rung.name for rung in ladder.stages] == list(STAGES)
    assert {rung.count for rung in ladder.stages} == {ladder.total.count}
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns > 0


def test_the_latency_table_names_each_layer_once(observed: tuple[str, Run]) -> None:
    summary = observed[1].path(Files.SUMMARY).read_text()
    table = summary[summary.index("Latency from the engine to the device") :].partition("\n\n")[0]
    rows = {
        row[1]: float(row[2]) for row in re.finditer(r"^([\w. ]+?) +(?:plain|ladder|iolat) +([\d.]+) ", table, re.M)
    }
    assert list(rows) == ["rx.lat", "query", "read call", "block total", "device", "io.lat"]
    # Of the same reads, each layer holds the next.
    assert rows["query"] > rows["read call"]
    assert rows["block total"] > rows["device"]
    ladder = read_ladder(observed[1].path(Files.LADDER))
    assert f"{ladder.device_gap()[0].name} {ladder.device_gap()[0].mean_ns / 1e3:.2f} us" in table


def test_the_summary_fits_a_hundred_columns(observed: tuple[str, Run]) -> None:
    lines = observed[1].path(Files.SUMMARY).read_text().split("\n")
    assert [line for line in lines if cells(line) > 100] == []
    # No table is folded: a figure alone on a line would be the end of the row above it.
    assert [line for line in lines if re.fullmatch(r"\s+[\d.,%]+", line)] == []


def test_on_cpu_and_off_cpu_are_all_the_threads_time(observed: tuple[str, Run]) -> None:
    off = read_off_cpu(observed[1].path(Files.OFF_CPU))
    assert off.ran_ns + off.off_ns == pytest.approx(off.elapsed_ns, rel=0.02)


def test_the_wall_clock_by_category_is_the_elapsed_time_of_a_query(observed: tuple[str, Run]) -> None:
    clock = read_wall_clock(observed[1].path(Files.WALL_CLOCK))
    assert clock.queries
    per_query = sum(row.us_per_query or 0.0 for row in clock.rows)
    assert per_query == pytest.approx(clock.elapsed_ns / 1e3 / clock.queries, rel=0.02)
    on_cpu = {row.category for row in clock.rows if row.state == "on-CPU"}
    assert "libc+k" in on_cpu and len(on_cpu) > 3  # perf's categories, scaled to the time on a CPU


def test_each_observer_has_its_cost_and_so_has_none_at_all(observed: tuple[str, Run]) -> None:
    run = observed[1]
    assert [cost.kind for cost in run.record.costs] == list(ALL)
    # A screen that is full leaves this line out (tests/viz/test_screen.py); the table of the summary stays.
    assert all(name in watching_words(run.record.costs) for name in ALL)
    summary = run.path(Files.SUMMARY).read_text()
    table = summary[summary.index("Observers:") :]
    for name in ALL:
        assert re.search(rf"^ +{name} +[+-]\d+\.\d% +[+-]\d+\.\d% to [+-]\d+\.\d%$", table, re.MULTILINE), name


def test_each_recording_is_folded_once(observed: tuple[str, Run]) -> None:
    folds = [c.argv for c in observed[1].record.commands if c.name == ANALYSIS and "stackfold" in c.argv[0]]
    assert sorted(Path(argv[-1]).name for argv in folds) == sorted(
        [Files.PERF_DATA, Files.OFF_CPU_DATA, Files.PMP_DATA, Files.REQUEST_STACKS]
    )
