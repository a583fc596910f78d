"""Background jobs of a run: the samples of perf's window that fall into each, and what all of them cost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from folding.stackfold import run_stackfold
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.job_costs import JobCosts, JobDevice
from ground.results.jobs import Job, RunJobs, read_run_jobs
from ground.results.profile import Folded, read_profile
from ground.results.record import RunRecord
from ground.results.requests import read_requests, request_rows
from ground.results.roles import READER, WRITES_VIEW, query_role
from ground.results.run import Run
from ground.system.atomic_files import write_json, write_whole
from ground.system.scratch import scratch_directory
from ioflame.analysis.job_requests import job_requests
from ioflame.analysis.jobs import AFTER, PARTS, JobSamples, job_costs, job_intervals
from ioflame.stages.rules import rules_of

__all__ = ("agreement", "analyse_jobs", "kernel_threads")

_OWNER = "owner"
# Sampled CPU and the engine's own account of it agree within this share; with fewer samples chance alone exceeds it.
_AGREED = 0.05
_ENOUGH = 1500


def analyse_jobs(run: Run, folded: Folded | None) -> list[Check]:
    """Writes what the run's jobs cost; nothing where none was recorded. folded: the profile of all threads"""
    path = run.path(Files.JOBS)
    if not path.exists():
        return []
    recorded, record = read_run_jobs(path), run.record
    notes: list[str] = []
    sampled = _sampled(run, recorded, folded, notes) if folded is not None else None
    windows = [window for window in record.windows if window.kind != "warm-up"]
    words = "query" if not record.roles or query_role(record.roles) == READER else "write"
    costs = replace(job_costs(recorded, windows, words, sampled, notes), device=_device(run, recorded))
    write_json(run.path(Files.JOB_COSTS), costs)
    return list(agreement(costs))


def _sampled(run: Run, recorded: RunJobs, folded: Folded, notes: list[str]) -> JobSamples | None:
    """None where samples cannot be told apart by job: a note says why."""
    window = next((window for window in run.record.windows if window.kind == "perf"), None)
    if window is None or run.record.profile is None or not run.path(Files.PERF_DATA).exists():
        return None
    if run.record.profile.unit != "ns":
        notes.append(f"samples are in {run.record.profile.unit}: CPU of jobs is by the engine's own account alone")
        return None
    tids = kernel_threads(recorded.found.jobs, run.record)
    profiled = {tid for tid in folded.threads.tid if tid is not None}
    lost = {thread for job in recorded.found.jobs for thread in (job.tid,) if thread not in tids}
    if lost:
        notes.append(
            f"{len(lost)} threads of the engine's log are known by their pthread_t alone: CPU of their jobs is not "
            "told by category"
        )
    intervals = job_intervals(recorded, tids)
    if not any(tid in profiled for tid, *_ in intervals):
        if intervals:
            notes.append(
                "perf saw no thread that ran jobs by the ids in the engine's log: those of a process in a container "
                "are its own"
            )
        return None
    with scratch_directory() as place:
        file = place / "intervals"
        write_whole(file, "".join("{} {} {} {}\n".format(*one) for one in intervals).encode())
        pids = run.record.target.pids if run.record.target is not None else [run.record.pid]
        argv = ["--kernel", "--no-inlines", "--only-pid", ",".join(map(str, pids)), "--intervals", str(file)]
        argv += ["--threads", str(len(os.sched_getaffinity(0))), "--input-format", "perf-data"]
        argv += ["--event", run.record.profile.event] if run.record.profile.beside else []
        argv.append(str(run.path(Files.PERF_DATA)))
        out = run.path(Files.JOB_PROFILE)
        done = run_stackfold(argv, out, rules_of(run).categories)
        if not out.exists():
            done.require("stackfold (jobs)")
        found = read_profile(out)
    of_jobs = {tid for tid, *_ in intervals}
    threads = zip(folded.stacks.thread, folded.stacks.weight, strict=True)
    total = sum(weight for thread, weight in threads if folded.threads.tid[thread] in of_jobs)
    return _by_job(found, (window.start_ns, window.end_ns), total)


def _device(run: Run, recorded: RunJobs) -> list[JobDevice]:
    """Requests of the jobs in the window that has each request one by one; none where there is no such window."""
    path, rows = run.path(Files.REQUESTS), run.path(Files.REQUEST_ROWS)
    if not path.exists() or not rows.exists():
        return []
    told = read_requests(path)
    return job_requests(recorded, told, request_rows(rows, told), kernel_threads(recorded.found.jobs, run.record))


def _by_job(found: Folded, window: tuple[int, int], of_threads: int) -> JobSamples:
    """found: by job and part; of_threads: weight of all samples of the jobs' threads"""
    table = found.views[WRITES_VIEW if WRITES_VIEW in found.views else _OWNER]
    names = [row["name"] for row in table.report["rows"]]
    weights: dict[tuple[int, int], dict[str, int]] = {}
    samples: dict[int, int] = {}
    if (groups := found.slices) is not None:
        for group, stack, weight, count in zip(groups.slice, groups.stack, groups.weight, groups.samples, strict=True):
            job, part = divmod(group, PARTS)
            own, name = weights.setdefault((job, part), {}), names[table.row[stack]]
            own[name] = own.get(name, 0) + weight
            if part <= AFTER:
                samples[job] = samples.get(job, 0) + count
    inside = sum(sum(own.values()) for own in weights.values())
    labels = {row["name"]: row["label"] for row in table.report["rows"]}
    return JobSamples(window, labels, weights, samples, max(0, of_threads - inside))


def kernel_threads(jobs: Sequence[Job], record: RunRecord) -> dict[int, int]:
    """The kernel's ids of threads as the log has them: where that is a pthread_t, by the one thread that may run jobs
    of that kind; those that cannot be told are left out."""
    found = {thread: thread for job in jobs for thread in job.threads if job.kernel_tid is not None}
    for kind in sorted({job.kind for job in jobs}):
        named = {job.tid for job in jobs if job.kind == kind and job.kernel_tid is None}
        known = record.roles.get(kind, [])
        if len(named) == 1 and len(known) == 1:
            found[named.pop()] = known[0]
    return found


def agreement(costs: JobCosts) -> Iterator[Check]:
    """Whether samples and the engine's own account agree on the CPU of the same jobs."""
    for kind in dict.fromkeys(one.kind for one in costs.cpu):
        own = [one for one in costs.cpu if one.kind == kind]
        ours, theirs = sum(one.account_ns for one in own) / 1e3, sum(one.account_us for one in own)
        samples, jobs = sum(one.samples for one in own), sum(one.jobs for one in own)
        if not theirs or not samples:
            continue
        off = ours / theirs - 1
        value = f"{ours / 1e3:,.0f} ms sampled, {theirs / 1e3:,.0f} ms by the engine's log ({off:+.1%}) in "
        value += "1 job" if jobs == 1 else f"{jobs} jobs"
        name = f"CPU of {kind} jobs"
        if abs(off) <= _AGREED:
            yield Check(name, Verdict.OK, value)
        elif samples < _ENOUGH:
            yield Check(name, Verdict.NOTE, value, f"{samples:,} samples are too few to tell 5 %")
        else:
            means = (
                "samples of a timer hold time that the hypervisor took"
                if off > 0
                else "a timer that the hypervisor holds up takes fewer samples, or threads that made no file ran jobs too"
            )
            yield Check(name, Verdict.NOTE, value, means)
