"""Background jobs, whose requests are, and sweeps: the figures are those of the results."""

from __future__ import annotations

import re
from dataclasses import replace

from ground.results.job_costs import JobDevice
from ground.results.jobs import Jobs, RunJobs
from ground.results.sweep import Offered, SweepRecord
from ioflame.analysis.jobs import job_costs
from ioflame.present.sweep import shown_sweep
from tests.background_jobs import UNIX, recorded, samples, windows
from tests.viz.observers import attributed, attribution
from tests.viz.runs import RATES
from viz.page.jobs import job_lanes, tree_panels
from viz.page.sweep import render_sweep_page
from viz.page.timeline import timeline
from viz.svg.job_lanes import lanes_height
from viz.svg.sweep import sweep_plot
from viz.tables.jobs import jobs_line, jobs_section
from viz.tables.request_attribution import attribution_section, labelled, level_matrix, reason_sums
from viz.tables.sweep import SweepView, sweep_section
from viz.terminal.table import section_text


# ---- background jobs -------------------------------------------------------------------------------------------------
def test_sentences_and_tables_have_the_figures() -> None:
    costs = job_costs(recorded(), windows(), "write", samples(), ["a note"])
    text = section_text(jobs_section(costs))
    for words in (
        "Compaction used 0.10 CPUs, and costs 250.00 us of each write (1 job in 10.0 s, by the engine's log)",
        "The fixed part of a flush is 500 us of CPU [500, 500], and 1,000 us per MiB written (n 12)",
        "Writes were stopped 2 times: immutable memtables (waiting for flush), 0.750 s in all, at most 0.500 s",
        "Writes were slowed down once: level-0 files; the end of 1 is not known",
        "3 files were deleted after their jobs, in 0.250 s, 20 ms of CPU in perf's window",
        "a note",
    ):
        assert words in text
    cells = [re.split(r"  +", line.strip()) for line in text.split("\n")]
    lines = {one[0]: one[1:] for one in reversed(cells)}
    # 12 flushes of 78 MiB in 6 s and 84 ms of CPU.
    assert lines["flush to L0"] == ["Write Buffer Full", "12", "156.0", "78.0", "13.0", "1,077", "0.01"]
    # 8 of them with 52 MiB: 100 ms of merging, 200 ms in all; 56 ms by the log.
    assert [lines[name] for name in ("merge", "all", "by the log", "jobs", "samples")] == [
        ["1,923"], ["3,846"], ["1,077"], ["8"], ["200"],
    ]  # fmt: skip
    stated = replace(recorded().found, held_back=[(UNIX + 2, 9.0), (UNIX + 4, 9.5), (UNIX + 5, 0.0), (UNIX + 8, 0.25)])
    told = section_text(jobs_section(job_costs(replace(recorded(), found=stated), windows(), "write", None, [])))
    assert "Writers were held back 0.750 of 5.0 s, by the engine's own count" in told and "held back" not in text
    device = JobDevice(
        "flush", 0, 2, 4 << 20, writes=9, write_bytes=5 << 20, write_ns=8_000_000, discards=3, discard_ns=500_000
    )
    table = section_text(jobs_section(replace(costs, device=[device])))
    assert re.search(r"flush to L0 +4\.0 +2 +- +- +5\.0 +2\.00 +3 +0\.5\n?$", table)
    line = jobs_line(costs)
    assert line.startswith(
        "In the background: compaction used 0.10 CPUs (250.00 us of each write); flush used 0.01 CPUs"
    )
    assert line.endswith("writes slowed down for 0.00 s: level-0 files")


def test_bars_are_where_the_jobs_were() -> None:
    lanes = job_lanes(recorded(), 10**9, 20.0)
    assert lanes_height(lanes) == 4 * lanes_height(lanes[:1])
    assert [(lane.name, lane.kind, len(lane.bars)) for lane in lanes] == [
        ("flush", "flush", 12), ("to L1", "compaction", 2), ("stopped", "held", 2), ("slowed", "held", 1),
    ]  # fmt: skip
    assert [(bar.begin, bar.end) for bar in lanes[1].bars] == [(1.0, 3.0), (10.0, 20.0)]
    assert "compaction 20, from L0 L1, LevelL0FilesNum" in lanes[1].bars[0].words
    assert lanes[3].bars[0].words.startswith("writes slowed down: level-0 files")
    assert job_lanes(recorded(), None, 20.0) == [] == job_lanes(None, 0, 20.0)
    files, pending = tree_panels(recorded(), 10**9, 20.0)
    assert [[(one.begin, one.end, one.value) for one in series.points] for series in files.series] == [
        [(0.5, 3.0, 1), (3.0, 20.0, 0)], [(0.5, 20.0, 1)],
    ]  # fmt: skip
    assert [point.value for point in pending.series[0].points] == [5.0, 0.0]
    stated = [(UNIX + 2, 1.0), (UNIX + 4, 1.5), (UNIX + 6, 1.5), (UNIX + 7, 0.0)]
    found = replace(recorded(), found=replace(recorded().found, held_back=stated, states=()))
    [held] = tree_panels(found, 10**9, 20.0)
    assert [(one.begin, one.end, one.value) for one in held.series[0].points] == [(1.0, 3.0, 25.0), (3.0, 5.0, 0.0)]
    assert tree_panels(replace(found, found=replace(found.found, held_back=stated[1:3])), 10**9, 20.0) == []


def test_a_stall_is_seen_through_all_panels_and_jobs_below_them() -> None:
    plot = str(timeline(RATES, windows(), windows(), 10**9, recorded()))
    assert len(re.findall(r'class="job flush"', plot)) == 12 and len(re.findall(r'class="job compaction"', plot)) == 2
    assert len(re.findall(r'class="job held through"', plot)) == 3
    assert "device writes, MiB/s" in plot and "writes stopped or slowed down" in plot
    writers = str(timeline(RATES, windows(), windows(), 10**9, recorded(), [700, 800]))
    assert ">writes/s<" in writers and "writes/s 700 to 800" in writers and "writes/s" not in plot
    without = str(timeline(RATES, windows(), windows(), 10**9))
    assert "job" not in without and "device writes" not in without
    nothing = RunJobs(recorded().clocks, Jobs((), (), (), UNIX))
    assert 'class="job' not in str(timeline(RATES, windows(), windows(), 10**9, nothing))


# ---- whose requests are ----------------------------------------------------------------------------------------------
def test_rows_of_one_label_are_one() -> None:
    twice = replace(
        attribution(),
        rows=[attributed("read", "others", 3), replace(attributed("read", "others", 4), submitter="kernel")],
    )
    assert [(one.label, one.requests) for one in labelled(twice, "read")] == [("other processes", 7)]
    assert [one.label for one in labelled(attribution(), "read")] == [
        "sst, L2, data", "sst, L1, data", "sst, L2, index", "other processes",
    ]  # fmt: skip
    assert [one.label for one in labelled(attribution(), "write")] == [
        "wal", "file system: metadata", "PREFLUSH without data, as fsync sends it",
    ]  # fmt: skip
    # Who else reads files of the database is said, and column families where there are several.
    by_others = replace(attributed("read", "database", 3, "sst", 2, "data"), submitter="others", column_family="a")
    found = replace(attribution(), rows=[by_others, replace(by_others, column_family="b", requests=1)])
    assert [one.label for one in labelled(found, "read")] == [
        "sst, L2, a, data (by other processes)", "sst, L2, b, data (by other processes)",
    ]  # fmt: skip


def test_the_text_has_shares_of_the_operation() -> None:
    text = section_text(attribution_section(attribution()))
    assert "Requests of vda (254:0, 5.0 s), process 42\nfiles of rocksdb in /db\n" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["sst,", "L2,", "data", "400", "83.9", "3.1", "MiB", "50.0"] in lines
    assert ["L2", "400", "(85.1", "%)", "30", "(6.4", "%)", "430"] in lines
    assert ["get", "440", "93.6", "3.4", "MiB", "50.0"] in lines
    assert "Why requests were sent: read" in text and "By 59 stacks" in text
    assert "477 of 477 reads, 30 of 30 writes, 4 of 4 flushes, as /proc/diskstats counts them." in text
    assert any(line[:1] == ["000012.sst"] and "moved" in line for line in lines)
    assert "No request of vda ended" in section_text(attribution_section(replace(attribution(), rows=[])))
    # Levels and parts are a table of the reads.
    assert level_matrix(attribution()) == (["data", "index"], [("L1", [40, 0]), ("L2", [400, 30])])
    assert [(one.label, one.requests) for one in reason_sums(attribution(), "read")] == [
        ("get", 440),
        ("compaction", 30),
    ]


# ---- sweeps ----------------------------------------------------------------------------------------------------------
def one(rate: float, p99: float, *, overloaded: bool = False, late: float = 0.0) -> Offered:
    latency = {} if overloaded else {"p50": p99 / 4, "p99": p99, "p99_9": 2 * p99}
    return Offered(rate, rate, 1000, 10.0, latency, late=late, cpu=12.5, overloaded=overloaded)


def record(offered: list[Offered], limit: float | None = 1000.0) -> SweepRecord:
    closed = Offered(None, 10_000.0, 100_000, 10.0, {"p50": 90.0, "p99": 200.0, "p99_9": 300.0}, cpu=11.0)
    return SweepRecord("0.1", "2026-11-26T20:00:00+0000", "rocksdb", "10.4.2", "readrandom", 1, "poisson", "p99", limit,
                       closed, offered, "1,000 keys", "ioflame-client <x>")  # fmt: skip


RUNS = [one(2500, 400), one(5000, 800), one(7500, 2600), one(9000, 0, overloaded=True), one(6000, 1100, late=300)]


def test_rates_are_in_order_and_each_says_whether_it_kept_the_limit() -> None:
    view = shown_sweep(record(RUNS))
    rows = [line.split() for line in section_text(sweep_section(view), 100).splitlines() if line.strip()[:1].isdigit()]
    told = {row[0]: row[-1] for row in rows if "keys" not in row[1]}
    assert list(told) == ["2,500", "5,000", "6,000", "7,500", "9,000"]
    assert list(told.values()) == ["yes", "yes", "known", "no", "overloaded"]
    assert view.sentence == (
        "5,000 queries a second keep p99 <= 1 ms, 6,000 a second do not; without a rate it answers 10,000 a second"
    )
    assert "the client's own lateness decides" in view.notes[0]
    # Without a limit, what is not overloaded is kept.
    view = shown_sweep(record(RUNS[:4], None))
    assert view.sentence.startswith("7,500 queries a second can be answered, 9,000 a second cannot")
    assert list(view.notes) == []
    # Where no rate is kept.
    view = shown_sweep(record([one(2500, 4000)]))
    assert view.sentence.startswith("no rate that was tried keeps p99 <= 1 ms: 2,500 a second do not")


def test_the_page_has_the_plot_the_table_and_the_command() -> None:
    page = render_sweep_page(shown_sweep(record(RUNS)))
    assert "5,000 queries a second keep p99 &lt;= 1 ms" in page
    assert "9,000 a second: overloaded" in page and "ioflame-client &lt;x&gt;" in page
    assert page.count("<script") == render_sweep_page(shown_sweep(record(RUNS[:1]))).count("<script")
    assert "every rate was overloaded" in sweep_plot(record([one(9000, 0, overloaded=True)], None), "words")
    view = SweepView(record(RUNS), "words", {})
    rows = view.table.cells("page")
    assert len({len(row) for row in rows}) == 1 and len(rows) == len(RUNS) + 2
