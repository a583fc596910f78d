"""What background jobs cost, of records whose sums a test can do in its head, and where each sample falls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.job_costs import FixedPart, JobDevice, StallRow, read_job_costs
from ground.results.jobs import Job, Jobs, RunJobs, Stall, read_run_jobs
from ground.results.requests import NOTHING, Request, SeenFile, SeenThread
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.analysis.jobs import (
    ACCOUNT,
    AFTER,
    PARTS,
    activity,
    fixed_part,
    job_costs,
    job_intervals,
    job_requests,
    matched,
    unknown_threads,
)
from ioflame.analysis.writes import stall_causes
from ioflame.measure.jobs import clock_pair, note_jobs
from ioflame.stages.jobs import agreement, analyse_jobs
from tests.background_jobs import FLUSHER, MERGER, MS, UNIX, place, recorded, samples, windows
from tests.requests import row, told
from tests.viz.observers import write_ladder
from tests.viz.runs import record
from tests.workloads.made_databases import creation, database, event
from viz.page.writes import writes_panel
from viz.tables.writes import writes_section
from viz.terminal.table import section_text
from workloads.registry import engine_named

MIB = 1 << 20


def test_jobs_are_added_up_by_level_and_reason_and_by_samples_where_they_are_whole() -> None:
    costs = job_costs(recorded(), windows(), "write", samples(), ["a note"])
    flushes, merged = costs.rows
    assert (flushes.jobs, flushes.bytes_out, flushes.seconds, flushes.cpu_us) == (12, 78 * MIB, 6.0, 84_000)
    assert (merged.level, merged.jobs, merged.bytes_in, merged.cpu_us) == (1, 1, 9 * MIB, 1_000_000)
    # Flushes 3 to 10 lie within perf's window; the compaction begins before it.
    [one] = costs.cpu
    assert (one.kind, one.jobs, one.bytes_out, one.account_us) == ("flush", 8, 52 * MIB, 56_000)
    assert (one.ns, one.account_ns, one.samples) == (200 * MS, 150 * MS, 200)
    assert one.categories == {"merge": 100 * MS, "checksum": 50 * MS, "install": 50 * MS}
    assert (costs.deleted, costs.deleting_seconds, costs.deleting_ns) == pytest.approx((3, 0.25, 20 * MS))
    assert (costs.in_no_job_ns, costs.notes) == (9, ["a note"])
    # Over 10 s and 4,000 writes: half of the compaction ran in each window; flushes 1 to 10 ran in them.
    compaction, flush = costs.totals
    assert (compaction.jobs, compaction.cpus, compaction.us_per_query) == pytest.approx((1, 0.1, 250))
    assert (flush.jobs, flush.us_per_query) == pytest.approx((10, 15))
    assert costs.stalls == [
        StallRow("immutable memtables (waiting for flush)", True, 2, 0.75, 0.5, 0),
        StallRow("level-0 files", False, 1, 0.0, 0.0, 1),
    ]


def test_the_fixed_part_is_what_a_job_of_no_output_would_cost() -> None:
    jobs = recorded().found.jobs
    found = fixed_part("flush", jobs)
    assert isinstance(found, FixedPart)
    assert (found.us.n, found.us.estimate, found.us_per_mib) == pytest.approx((12, 500, 1000))
    assert found.us.low == pytest.approx(500) == found.us.high
    assert fixed_part("compaction", jobs) is None
    assert fixed_part("flush", jobs[:9]) is None
    assert fixed_part("flush", [replace(job, bytes_out=MIB) for job in jobs]) is None
    assert fixed_part("flush", [replace(job, bytes_out=job.bytes_out + 99 * MIB) for job in jobs]) is None
    # Some take a tenth more and some a tenth less: the interval holds what was there before.
    factors = {4: 1.1, 5: 0.9, 8: 0.9, 9: 1.1}
    us = fixed_part(
        "flush", [replace(job, cpu_us=round((job.cpu_us or 0) * factors.get(job.number, 1))) for job in jobs]
    )
    assert us is not None and us.us.low < 500 < us.us.high and us.us.n == 12


def test_intervals_are_the_parts_of_jobs_by_the_kernels_threads() -> None:
    own = recorded()
    found = _to_us(job_intervals(own, {FLUSHER: 8, MERGER: 9}))
    second = 10**9
    assert [one for one in found if one[3] // PARTS == place(3)] == [
        (8, 3 * second, 3 * second + 400 * MS, PARTS * place(3) + ACCOUNT),
        (8, 3 * second + 400 * MS, 3 * second + 500 * MS, PARTS * place(3) + AFTER),
    ]
    # A job that has not ended has no interval; deleting lasts until its last file was gone.
    assert [one[1:3] for one in found if one[0] == 9] == [
        (2 * second, 3900 * MS), (3900 * MS, 4 * second), (4 * second, 4250 * MS)
    ]  # fmt: skip
    assert _to_us(job_intervals(own, {MERGER: 9})) == [one for one in found if one[0] == 9]
    assert job_intervals(own, {}) == []
    # A job that begins while the thread's last one still deletes ends that.
    late = replace(own.found.jobs[place(21)], begin=UNIX + 4.1, end=UNIX + 5)
    jobs = [late if job.number == 21 else job for job in own.found.jobs]
    cut = _to_us(job_intervals(replace(own, found=replace(own.found, jobs=jobs)), {MERGER: 9}))
    assert [one[1:3] for one in cut][2:] == [(4 * second, 4100 * MS), (4100 * MS, 5 * second)]


def _to_us(intervals: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """As the log has them: Unix seconds as a float are a little finer."""
    return [(tid, round(begin, -3), round(end, -3), group) for tid, begin, end, group in intervals]


def test_clocks_that_part_are_followed() -> None:
    own = recorded()
    parted = RunJobs([own.clocks[0], (own.clocks[1][0], own.clocks[1][1] + 14 * MS)], own.found)
    assert parted.monotonic_ns(UNIX) == 0
    assert parted.monotonic_ns(UNIX + 14.014) == pytest.approx(14 * 10**9, abs=500)
    assert parted.monotonic_ns(UNIX + 7.007) == pytest.approx(7 * 10**9, abs=500)


def test_threads_of_a_log_with_pthreads_are_told_by_when_they_ran() -> None:
    far, second = 140_178_094_024_384, 10**9
    spans = {far: [(1, 3), (5, 7)], far + 1: [(2, 4)], 7: [(0, 9)]}
    jobs = [
        Job("flush", n, thread, UNIX + begin, UNIX + end)
        for thread, own in spans.items()
        for n, (begin, end) in enumerate(own)
    ]
    own = RunJobs(recorded().clocks, Jobs(jobs, (), (), UNIX + 14))
    assert unknown_threads(jobs) == {far, far + 1}
    times = activity(own, unknown_threads(jobs))
    assert [(round(begin / second), round(end / second), set(busy)) for begin, end, busy in times] == [
        (1, 2, {far}), (2, 3, {far, far + 1}), (3, 4, {far + 1}), (5, 7, {far}),
    ]  # fmt: skip
    # 8 runs in what the first thread does, 9 in what the second does, and 10 all the time.
    ran = {(8, 0): 40, (8, 1): 30, (8, 3): 25, (9, 1): 50, (9, 2): 50, (10, 0): 99, (10, 1): 99, (10, 3): 99}
    totals = {8: 100, 9: 101, 10: 600}
    assert matched(times, ran, totals, 10) == {far: 8, far + 1: 9}
    assert matched(times, ran, totals, 101) == {far + 1: 9}
    # Of two that both ran in nothing else nobody knows which it is.
    assert matched(times, {**ran, (11, 0): 20}, {**totals, 11: 20}, 10) == {far + 1: 9}
    assert activity(own, ()) == [] == activity(recorded(), {far})


def test_samples_and_the_log_are_compared_by_kind() -> None:
    costs = job_costs(recorded(), windows(), "write", samples(), [])
    [check] = agreement(costs)
    assert (check.name, check.verdict) == ("CPU of flush jobs", Verdict.NOTE)
    assert "150 ms sampled, 56 ms by the engine's log (+167.9%) in 8 jobs" in check.value
    equal = replace(costs, cpu=[replace(costs.cpu[0], account_us=151_000)])
    assert [check.verdict for check in agreement(equal)] == [Verdict.OK]


def test_jobs_of_a_database_are_noted_with_the_windows_and_analysed(tmp_path: Path) -> None:
    folder = database(tmp_path / "db", [], [])
    began = clock_pair()
    ahead = (began[1] - began[0]) / 1e9
    lines = event("flush_started", 4, ahead + 2, total_data_size=20_000, flush_reason="R") + creation(9, 4, ahead + 2.1)
    lines += event("flush_finished", 4, ahead + 2.5) + event("flush_started", 5, ahead + 99)
    (folder / "LOG").write_text(lines, encoding="utf-8")
    run = Run(tmp_path, record(windows=windows()))
    note_jobs(run, engine_named("leveldb"), folder, began)
    assert not run.path(Files.JOBS).exists()
    note_jobs(run, engine_named("rocksdb"), folder, began)
    kept = read_run_jobs(run.path(Files.JOBS))
    [job] = kept.found.jobs
    assert kept.monotonic_ns(job.begin) == pytest.approx(2e9, abs=5 * MS) and job.bytes_in == 20_000
    assert analyse_jobs(run, None) == []
    assert [row.jobs for row in read_job_costs(run.path(Files.JOB_COSTS)).rows] == [1]
    write_json(run.path(Files.JOBS), recorded())
    assert read_run_jobs(run.path(Files.JOBS)).found.jobs[0].threads == [FLUSHER]


def test_requests_are_the_jobs_of_their_thread_or_of_the_file_that_a_job_made() -> None:
    second = 10**9
    threads = [SeenThread(FLUSHER, 7, "flush"), SeenThread(MERGER, 7, "merge"), SeenThread(5, 2, "kworker")]
    files = [SeenFile((254, 0), 12, 1, ["000030.sst", "db"], []), SeenFile((254, 0), 13, 1, [], [])]
    window = told([], start_ns=second, end_ns=14 * second, files=files, threads=threads)

    def sent(ended: float, thread: int, operation: str, size: int, file: int = NOTHING) -> Request:
        """One that was a second in its queue and half of one at the device."""
        return row(
            ended=round(ended * second), queue_ns=second, device_ns=second // 2, bytes=size, file=file, thread=thread,
            operation=window.operations.index(operation),
        )  # fmt: skip

    rows = [
        sent(4.0, 1, "read", 100),  # sent at 2.5, in the compaction
        sent(5.4, 1, "write", 70),  # at its end
        sent(5.8, 1, "write", 1000),  # after it
        sent(5.7, 1, "discard", 50),  # while it deleted
        sent(9.0, 2, "write", 8, file=0),  # written back later
        sent(9.0, 2, "write", 9, file=1),
        sent(2.8, 0, "write", 30),  # in the first flush, at 1.3
        sent(2.9, 0, "flush", 0),
        sent(15.9, 0, "write", 40),  # after all
    ]
    identity = {FLUSHER: FLUSHER, MERGER: MERGER}
    flushes, merged = job_requests(recorded(), window, rows, identity)
    assert merged == JobDevice("compaction", 1, 1, 8 * MIB, 1, 100, second // 2, 2, 78, second, 1, second // 2)
    assert flushes == JobDevice("flush", 0, 12, 78 * MIB, writes=1, write_bytes=30, write_ns=second // 2)
    # Jobs outside the window of requests have no row.
    assert job_requests(recorded(), replace(window, start_ns=13 * second), rows, identity) == []


# ---- stalls of a window by their cause -------------------------------------------------------------------------------
SECOND = 10**9
_MEMTABLES = "immutable memtables (waiting for flush)"


def with_stalls(*stalls: Stall) -> RunJobs:
    return replace(recorded(), found=replace(recorded().found, stalls=stalls))


def test_stalls_of_a_cause_are_added_up_by_their_part_in_the_window() -> None:
    """Stops of the seconds 3 to 3.25 and 5 to 5.5; a delay from 9 on, of which no end is known."""
    found = stall_causes(recorded(), 3 * SECOND + 100 * MS, 10 * SECOND)
    delay, stop = found
    assert (delay.stopped, delay.cause, delay.column_family, delay.times) == (False, "level-0 files", "default", 1)
    assert (stop.stopped, stop.cause, stop.column_family, stop.times) == (True, _MEMTABLES, "default", 2)
    # Unix seconds are known to a microsecond.
    assert (delay.seconds, delay.longest, delay.first) == pytest.approx((1.0, 1.0, 5.9), abs=1e-5)
    assert (stop.seconds, stop.longest, stop.first) == pytest.approx((0.65, 0.5, 0.0), abs=1e-5)
    assert stall_causes(recorded(), 3_251 * MS, 5 * SECOND) == []


def test_column_families_and_delays_and_stops_are_told_apart() -> None:
    delay = Stall("level-0 files", False, UNIX + 1, UNIX + 2, "default")
    other = replace(delay, column_family="other")
    stop = replace(delay, stopped=True, begin=UNIX + 2, end=UNIX + 4)
    found = stall_causes(with_stalls(delay, other, stop), 0, 10 * SECOND)
    assert [(one.stopped, one.column_family, round(one.seconds, 3)) for one in found] == [
        (True, "default", 2), (False, "default", 1), (False, "other", 1),
    ]  # fmt: skip


def test_a_stall_without_an_end_lasts_until_the_next_of_its_family_or_the_logs_end() -> None:
    lost = Stall("level-0 files", False, UNIX + 1, None, "default")
    later = Stall(_MEMTABLES, True, UNIX + 3, None, "default")
    found = stall_causes(with_stalls(lost, later), 0, 20 * SECOND)
    assert [(one.cause, round(one.seconds, 3)) for one in found] == [(_MEMTABLES, 11), ("level-0 files", 2)]


def test_page_and_terminal_name_the_cause() -> None:
    causes = stall_causes(recorded(), 2 * SECOND, 10 * SECOND)
    text, page = section_text(writes_section(write_ladder(), causes)), str(writes_panel(write_ladder(), causes))
    for words in ("Stalls of this window, by the engine's log", _MEMTABLES, "750.0", "500.0", "1.00"):
        assert words in text and words.replace("'", "&#39;") in page.replace("&#x27;", "&#39;")
    assert "by the engine's log" not in section_text(writes_section(write_ladder()))
