"""Background jobs of a run: the samples of perf's window that fall into each, and what all of them cost."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.accounts import ACCOUNTS, Account
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.job_costs import JobCosts, JobDevice
from ground.results.jobs import MOST_THREADS, RunJobs, read_run_jobs
from ground.results.profile import Folded, read_profile
from ground.results.requests import read_requests, request_rows
from ground.results.roles import READER, WRITES_VIEW, query_role
from ground.results.run import Run
from ground.system.atomic_files import write_json, write_whole
from ground.system.scratch import scratch_directory
from ioflame.analysis.jobs import (
    AFTER,
    PARTS,
    JobSamples,
    activity,
    job_costs,
    job_intervals,
    job_requests,
    matched,
    unknown_threads,
)
from ioflame.stages.rules import rules_of

_OWNER = "owner"
_MIB = 1 << 20
# Sampled CPU and the engine's own account of it agree within this share; with fewer samples chance alone exceeds it.
_AGREED = 0.05
_ENOUGH = 1500
# A thread with fewer samples is taken for none of the log's.
_FEWEST = 10


def analyse_jobs(run: Run, folded: Folded | None) -> list[Check]:
    """Writes what the run's jobs cost; nothing where none was recorded. folded: the profile of all threads"""
    path = run.path(Files.JOBS)
    if not path.exists():
        return []
    recorded, record = read_run_jobs(path), run.record
    notes: list[str] = []
    usable = folded is not None and run.path(Files.PERF_DATA).exists()
    tids = kernel_threads(run, recorded, folded) if folded is not None and usable else {}
    sampled = _sampled(run, recorded, folded, tids, notes) if folded is not None and usable else None
    windows = [window for window in record.windows if window.kind != "warm-up"]
    words = "query" if not record.roles or query_role(record.roles) == READER else "write"
    costs = replace(job_costs(recorded, windows, words, sampled, notes), device=_device(run, recorded, tids))
    write_json(run.path(Files.JOB_COSTS), costs)
    return list(agreement(costs))


def job_accounts(costs: JobCosts) -> list[Account]:
    """CPU of background jobs by query; CPU and device time of flushes and of compactions by each MiB that they wrote,
    of jobs whole in a window."""
    totals = {one.kind: one.cpus * costs.seconds * 1e6 for one in costs.totals}
    found = [Account("jobs", costs.queries, totals)] if costs.queries and totals else []
    for kind in dict.fromkeys([*(one.kind for one in costs.cpu), *(one.kind for one in costs.device)]):
        of_cpu = [one for one in costs.cpu if one.kind == kind]
        of_device = [one for one in costs.device if one.kind == kind]
        cpu: Counter[str] = Counter()
        for one in of_cpu:
            cpu.update({costs.labels.get(name, name): ns for name, ns in one.categories.items()})
        device = {
            "reads": sum(one.read_ns for one in of_device),
            "writes": sum(one.write_ns for one in of_device),
            "discards": sum(one.discard_ns for one in of_device),
        }
        for name, rows, written in (
            (kind, cpu, sum(one.bytes_out for one in of_cpu)),
            (f"{kind}_io", device, sum(one.bytes_out for one in of_device)),
        ):
            if written and name in ACCOUNTS:
                found.append(Account(name, written / _MIB, {row: ns / 1e3 for row, ns in rows.items()}))
    return found


def _sampled(
    run: Run, recorded: RunJobs, folded: Folded, tids: Mapping[int, int], notes: list[str]
) -> JobSamples | None:
    """None where there are no samples by job: a note says why, unless there is no profile or no job."""
    windows = run.record.of_kind("perf")
    if not windows or run.record.profile is None:
        return None
    if run.record.profile.unit != "ns":
        notes.append(f"samples are in {run.record.profile.unit}: CPU of jobs is by the engine's own account alone")
        return None
    profiled = {tid for tid in folded.threads.tid if tid is not None}
    if lost := unknown_threads(recorded.found.jobs) - tids.keys():
        notes.append(
            f"{len(lost)} of the threads in the engine's log are known by their pthread_t alone, and samples do not "
            "tell which they are: CPU of their jobs has no categories"
        )
    intervals = job_intervals(recorded, tids)
    if not any(tid in profiled for tid, *_ in intervals):
        if intervals:
            notes.append(
                "perf saw no thread that ran jobs by the ids in the engine's log: those of a process in a container "
                "are its own"
            )
        return None
    found = _fold(run, intervals, run.path(Files.JOB_PROFILE))
    of_jobs = {tid for tid, *_ in intervals}
    total = sum(weight for tid, weight in _weights(folded).items() if tid in of_jobs)
    told = frozenset(group // PARTS for *_, group in intervals)
    return _by_job(found, [(one.start_ns, one.end_ns) for one in windows], total, told, run.directory)


def _fold(run: Run, intervals: Sequence[tuple[int, int, int, int]], out: Path) -> Folded:
    """The samples in intervals of threads, by group. out: where stackfold's profile goes"""
    profile = run.record.profile
    assert profile is not None
    with scratch_directory() as place:
        file = place / "intervals"
        write_whole(file, "".join("{} {} {} {}\n".format(*one) for one in intervals).encode())
        pids = run.record.target.pids if run.record.target is not None else [run.record.pid]
        argv = ["--kernel", "--no-inlines", "--only-pid", ",".join(map(str, pids)), "--intervals", str(file)]
        argv += ["--threads", str(len(os.sched_getaffinity(0))), "--input-format", "perf-data"]
        argv += ["--event", profile.event] if profile.beside else []
        done = run_stackfold([*argv, str(run.path(Files.PERF_DATA))], out, rules_of(run).categories)
    if not out.exists():
        done.require("stackfold (jobs)")
    return read_profile(out)


def _weights(folded: Folded) -> dict[int, int]:
    """By thread."""
    sums: dict[int, int] = {}
    for thread, weight in zip(folded.stacks.thread, folded.stacks.weight, strict=True):
        tid = folded.threads.tid[thread]
        if tid is not None:
            sums[tid] = sums.get(tid, 0) + weight
    return sums


def kernel_threads(run: Run, recorded: RunJobs, folded: Folded) -> dict[int, int]:
    """The kernel's ids of threads as the log has them: where that is a pthread_t, by when perf saw each of them run;
    those that cannot be matched are left out."""
    jobs = recorded.found.jobs
    found = {thread: thread for job in jobs for thread in job.threads if thread < MOST_THREADS}
    times = activity(recorded, unknown_threads(jobs))
    totals = _weights(folded)
    if not times or not totals:
        return found
    intervals = [
        (tid, begin, end, place)
        for tid in totals.keys() - found.values()
        for place, (begin, end, _) in enumerate(times)
    ]
    with scratch_directory() as place_of:
        ran = _fold(run, intervals, place_of / Files.JOB_PROFILE)
    weights: dict[tuple[int, int], int] = {}
    if (groups := ran.slices) is not None:
        for place, stack, weight in zip(groups.slice, groups.stack, groups.weight, strict=True):
            tid = ran.threads.tid[ran.stacks.thread[stack]]
            if tid is not None:
                weights[tid, place] = weights.get((tid, place), 0) + weight
    least = _FEWEST * folded.statistics.largest_sample_weight
    return found | matched(times, weights, totals, least)


def _device(run: Run, recorded: RunJobs, tids: Mapping[int, int]) -> list[JobDevice]:
    """Requests of the jobs in the window that has each request one by one; none where there is no such window."""
    path, rows = run.path(Files.REQUESTS), run.path(Files.REQUEST_ROWS)
    if not path.exists() or not rows.exists():
        return []
    told = read_requests(path)
    return job_requests(recorded, told, request_rows(rows, told), tids)


def _by_job(
    found: Folded, windows: Sequence[tuple[int, int]], of_threads: int, told: Collection[int], directory: Path
) -> JobSamples:
    """found: by job and part; of_threads: weight of all samples of the jobs' threads; told: of `JobSamples`"""
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
    if inside > of_threads:
        raise MeasurementError(
            f"{inside:,} ns of samples are in jobs, and their threads have {of_threads:,} in all",
            means="the two were not folded from one recording: there are no figures of jobs",
            mend=shlex.join(["ioflame", "analyse", str(directory)]),
        )
    labels = {row["name"]: row["label"] for row in table.report["rows"]}
    return JobSamples(windows, labels, weights, samples, of_threads - inside, told)


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
            yield Check(name, Verdict.NOTE, value, f"{samples:,} samples are too few to see 5 %")
        else:
            means = (
                "samples of a timer hold time that the hypervisor took"
                if off > 0
                else "a timer that the hypervisor holds up takes fewer samples, or threads without a file ran jobs too"
            )
            yield Check(name, Verdict.NOTE, value, means)
