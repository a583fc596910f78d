"""Background jobs as text and on the time line: sentences with their figures, bars where the jobs were."""

from __future__ import annotations

import re
from dataclasses import replace

from ground.results.job_costs import JobDevice
from ground.results.jobs import Jobs, RunJobs
from ioflame.analysis.jobs import job_costs
from tests.background_jobs import UNIX, recorded, samples, windows
from tests.viz.runs import RATES
from viz.page.jobs import job_lanes, jobs_panel, tree_panels
from viz.page.timeline import timeline
from viz.svg.job_lanes import lanes_height
from viz.terminal.jobs import jobs_line, jobs_text


def test_sentences_and_tables_have_the_figures() -> None:
    text = jobs_text(job_costs(recorded(), windows(), "write", samples(), ["a note"]))
    for words in (
        "compaction used 0.10 CPUs, and costs 250.00 us of each write (1 job in 10.0 s, by the engine's log)",
        "the fixed part of a flush is 500 us of CPU [500, 500], and 1,000 us per MiB written (n 12)",
        "writes were stopped 2 times: immutable memtables (waiting for flush), 0.750 s in all, at most 0.500 s",
        "writes were slowed down once: level-0 files; the end of 1 is not known",
        "3 files were deleted after their jobs, in 0.250 s, 20 ms of CPU in perf's window",
        "a note",
    ):
        assert words in text
    cells = [re.split(r"  +", line.strip()) for line in text.split("\n")]
    lines = {one[0]: one[1:] for one in reversed(cells)}
    # 12 flushes of 78 MiB in 6 s and 84 ms of CPU.
    assert lines["flush to L0"] == ["Write Buffer Full", "12", "156.0", "78.0", "13.0", "1,077", "0.01"]
    # 8 of them with 52 MiB: 100 ms of merging, 200 ms in all; 56 ms by the log.
    assert [lines[name] for name in ("merge", "all", "by the log", "jobs, samples")] == [
        ["1,923"], ["3,846"], ["1,077"], ["8, 200"],
    ]  # fmt: skip
    costs = job_costs(recorded(), windows(), "write", samples(), [])
    device = JobDevice(
        "flush", 0, 2, 4 << 20, writes=9, write_bytes=5 << 20, write_ns=8_000_000, discards=3, discard_ns=500_000
    )
    table = jobs_text(replace(costs, device=[device]))
    assert re.search(r"flush to L0 +2 +4\.0 +- +- +5\.0 +2\.00 +3 +0\.5\n?$", table)
    assert "2.00" in str(jobs_panel(replace(costs, device=[device])))
    line = jobs_line(job_costs(recorded(), windows(), "write", samples(), []))
    assert line.startswith(
        "In the background: compaction used 0.10 CPUs (250.00 us of each write); flush used 0.01 CPUs"
    )
    assert line.endswith("writes slowed down for 0.00 s: level-0 files")
    page = str(jobs_panel(job_costs(recorded(), windows(), "write", samples(), [])))
    assert "250.00 us of each write" in page and "1,923" in page
    assert str(jobs_panel(None)) == ""


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


def test_a_stall_is_seen_through_all_panels_and_jobs_below_them() -> None:
    plot = str(timeline(RATES, windows(), windows(), 10**9, recorded()))
    assert len(re.findall(r'class="job flush"', plot)) == 12 and len(re.findall(r'class="job compaction"', plot)) == 2
    assert len(re.findall(r'class="job held through"', plot)) == 3
    assert "device writes, MiB/s" in plot and "writes stopped or slowed down" in plot
    without = str(timeline(RATES, windows(), windows(), 10**9))
    assert "job" not in without and "device writes" not in without
    nothing = RunJobs(recorded().clocks, Jobs((), (), (), UNIX))
    assert 'class="job' not in str(timeline(RATES, windows(), windows(), 10**9, nothing))
