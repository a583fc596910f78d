"""Background jobs of a real writer: each sample given to the job of its thread and time, and what the page shows."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.job_costs import read_job_costs
from ground.results.jobs import read_run_jobs
from ground.results.profile import read_profile
from ioflame.analysis.jobs import job_intervals
from ioflame.stages.jobs import kernel_threads
from tests.e2e.commands import attached, service
from tests.ioflame.asked import asked
from tests.until import until
from tests.workloads.test_real_files import db_bench

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


def test_every_sample_of_an_attached_writer_is_in_the_job_of_its_thread_and_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "db"
    with service(db_bench(folder, "overwrite", "--duration=3600", "--statistics=false")) as writer:
        until(lambda: (folder / "LOG").exists() and "compaction_finished" in (folder / "LOG").read_text(), writer)
        done = attached(tmp_path / "runs", [writer.pid], "--seconds=10", "--collect=perf", "--callgraph=fp")
    run = done.run
    # A flush or a compaction is whole in a window, not in turns of a second.
    assert [window.round for window in run.record.windows if window.kind == "perf"] == [0]
    recorded, costs = read_run_jobs(run.path(Files.JOBS)), read_job_costs(run.path(Files.JOB_COSTS))
    assert set() < {row.kind for row in costs.rows} <= {"flush", "compaction"}
    first, last = run.record.windows[0].start_ns, run.record.windows[-1].end_ns
    for job in recorded.found.jobs:
        assert recorded.monotonic_ns(job.begin) < last
        assert job.end is None or (recorded.monotonic_ns(job.end) > first and job.cpu_us is not None)
    whole = read_profile(run.path(Files.PROFILE))
    intervals = job_intervals(recorded, kernel_threads(run, recorded, whole))
    profile = read_profile(run.path(Files.JOB_PROFILE))
    found: dict[int, int] = defaultdict(int)
    assert profile.slices is not None
    for group, weight in zip(profile.slices.slice, profile.slices.weight, strict=True):
        found[group] += weight
    assert sum(found.values()) == profile.statistics.weight > 0
    # In jobs and outside of them: all of the threads that ran any.
    threads = {thread for thread, *_ in intervals}
    all_of = sum(stack.weight for stack in whole.each_stack() if stack.tid in threads)
    assert costs.in_no_job_ns is not None and costs.in_no_job_ns + sum(found.values()) == all_of
    # By perf script's own account: the weight of each part of each job. It gives up on a recording in which the BPF
    # programs of other tests come and go.
    script = ["perf", "script", "--ns", "-F", "tid,time,period", "-i", str(run.path(Files.PERF_DATA))]
    printed = subprocess.run(script, capture_output=True, text=True, check=False)
    expected: dict[int, int] = defaultdict(int)
    for line in printed.stdout.splitlines():
        tid, time, period = line.split()
        seconds, _, ns = time.rstrip(":").partition(".")
        moment = int(seconds) * 10**9 + int(ns)
        for thread, begin, end, group in intervals:
            if thread == int(tid) and begin <= moment < end:
                expected[group] += int(period)
    if printed.returncode == 0:
        assert found == expected
    else:
        assert all(expected[group] <= found[group] for group in expected)
    code, shown, err = asked(capsys, "show", run.directory, "jobs")
    assert code == 0 and " used " in shown and "by the log" in shown, err
    page = run.path(Files.REPORT).read_text(encoding="utf-8")
    assert page.count('class="job compaction"') == sum(job.kind == "compaction" for job in recorded.found.jobs)
