"""What background jobs of a run wrote and cost: sums of their records, of samples taken while they ran, and of requests
of the device that were for them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ground.results.interval import Interval
from ground.results.job_costs import FixedPart, JobCosts, JobCpu, JobDevice, JobRow, JobTotal, StallRow
from ground.results.jobs import Job, RunJobs, Stall, job_order
from ground.results.record import Window
from ground.results.requests import NOTHING, Request, Requests
from ioflame.analysis.quantiles import t_quantile

# The parts of a job in its samples: what the engine's own account covers, its last steps, deleting files after it.
ACCOUNT, AFTER, DELETING = range(3)
PARTS = 3
_MIB = 1 << 20
# Fewer jobs determine no line.
_FEWEST = 10
# Least share of its CPU that a thread of jobs spends within them: the rest is picking jobs.
_IN_JOBS = 0.9

# From begin until before end (CLOCK_MONOTONIC, ns), the threads of the log that are in a job then.
Activity = list[tuple[int, int, frozenset[int]]]
# Operations as `Requests.operations` has them, and the columns of a row.
_COLUMNS = {"read": ("reads", "read_bytes", "read_ns"), "write": ("writes", "write_bytes", "write_ns")}
_DISCARD = "discard"


@dataclass(frozen=True)
class JobSamples:
    """Samples by job and part of it. windows: of perf, CLOCK_MONOTONIC ns

    weights: ns by place of the job, part, category; samples: by place of the job, of the job itself
    elsewhere_ns: of the jobs' threads, outside every job; told: places of the jobs whose thread is known
    """

    windows: Sequence[tuple[int, int]]
    labels: Mapping[str, str]
    weights: Mapping[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    samples: Mapping[int, int] = field(default_factory=dict)
    elsewhere_ns: int = 0
    told: Collection[int] = frozenset()


def job_intervals(recorded: RunJobs, tids: Mapping[int, int]) -> list[tuple[int, int, int, int]]:
    """Thread, begin, end (CLOCK_MONOTONIC ns) and group of each part of each job: PARTS x its place + part.

    tids: the kernel's thread ids by what the log has. Where two of a thread overlap by the log's clock, the first ends
    where the second begins.
    """
    found = []
    for place, job in enumerate(recorded.found.jobs):
        begin = recorded.monotonic_ns(job.begin)
        end = recorded.monotonic_ns(job.end) if job.end is not None else None
        covered = begin + job.run_us * 1000 if job.run_us is not None else end
        if end is not None and covered is not None:
            covered = min(covered, end)
        for thread in job.threads or (job.tid,):
            tid = tids.get(thread)
            if tid is None or end is None or covered is None:
                continue
            found.append((tid, begin, covered, PARTS * place + ACCOUNT))
            if thread == job.tid:
                found.append((tid, covered, end, PARTS * place + AFTER))
                if job.deleted_until is not None:
                    found.append((tid, end, recorded.monotonic_ns(job.deleted_until), PARTS * place + DELETING))
    found.sort()
    cut = []
    for one, following in itertools.zip_longest(found, found[1:]):
        tid, begin, end, group = one
        if following is not None and following[0] == tid:
            end = min(end, following[1])
        if end > begin:
            cut.append((tid, begin, end, group))
    return cut


def job_costs(
    recorded: RunJobs, windows: Sequence[Window], queries_are: str, sampled: JobSamples | None, notes: Sequence[str]
) -> JobCosts:
    """sampled: None where there are no samples by job; `notes` says why, unless there is no profile or no job"""
    found = recorded.found
    spans = [(window.start_ns, window.end_ns) for window in windows]
    seconds = sum(window.seconds for window in windows)
    counted = [window.counters.queries for window in windows]
    queries = sum(one for one in counted if one is not None) if counted and None not in counted else None
    ended = [job for job in found.jobs if job.end is not None]
    stated = [(last - first, end - begin) for (begin, first), (end, last) in itertools.pairwise(found.held_back)]
    deleting = [job.deleted_until - job.end for job in ended if job.deleted_until is not None and job.end is not None]
    return JobCosts(
        seconds=seconds,
        queries_are=queries_are,
        rows=list(job_rows(ended)),
        cpu=list(_cpu(recorded, sampled)) if sampled is not None else [],
        fixed=[part for kind in sorted({job.kind for job in ended}) if (part := fixed_part(kind, ended)) is not None],
        totals=list(_totals(recorded, spans, seconds, queries)),
        stalls=list(_stalls(found.stalls)),
        labels=sampled.labels if sampled is not None else {},
        deleted=sum(job.deleted for job in ended),
        deleting_seconds=sum(deleting),
        deleting_ns=_deleting_ns(sampled) if sampled is not None else None,
        in_no_job_ns=sampled.elsewhere_ns if sampled is not None else None,
        # A count that falls is of another process.
        held_back_seconds=sum(waited for waited, _ in stated if waited >= 0) if stated else None,
        queries=queries,
        stated_seconds=sum(passed for waited, passed in stated if waited >= 0),
        notes=[*found.notes, *notes],
    )


def cpu_by_level(rows: Iterable[JobRow]) -> dict[str, float]:
    """CPU us by the engine's own account, of jobs of one kind and output level; without those that it says none of."""
    found: dict[str, float] = {}
    for row in rows:
        if row.cpu_us is not None:
            name = row.kind if row.level is None else f"{row.kind} to L{row.level}"
            found[name] = found.get(name, 0.0) + row.cpu_us
    return found


def job_rows(jobs: Sequence[Job]) -> Iterator[JobRow]:
    """Of ended jobs."""
    groups: dict[tuple[str, int | None, str], list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.kind, job.level, job.reason].append(job)
    for kind, level, reason in sorted(groups, key=lambda one: (job_order(one[0], one[1]), one[2])):
        own = groups[kind, level, reason]
        cpu = [job.cpu_us for job in own if job.cpu_us is not None]
        yield JobRow(
            kind, level, reason, len(own), sum(job.bytes_in for job in own), sum(job.bytes_out for job in own),
            sum(job.end - job.begin for job in own if job.end is not None), sum(cpu) if len(cpu) == len(own) else None,
        )  # fmt: skip


def _cpu(recorded: RunJobs, sampled: JobSamples) -> Iterator[JobCpu]:
    groups: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for place, job in enumerate(recorded.found.jobs):
        if place in sampled.told and is_whole(recorded, job, sampled.windows):
            groups[job.kind, job.level].append(place)
    for kind, level in sorted(groups, key=lambda one: job_order(*one)):
        places = groups[kind, level]
        categories: dict[str, int] = {}
        account = 0
        for place in places:
            for part in (ACCOUNT, AFTER):
                for name, weight in sampled.weights.get((place, part), {}).items():
                    categories[name] = categories.get(name, 0) + weight
                    account += weight if part == ACCOUNT else 0
        jobs = [recorded.found.jobs[place] for place in places]
        yield JobCpu(
            kind, level, len(jobs), sum(job.bytes_out for job in jobs),
            sum(sampled.samples.get(place, 0) for place in places), categories, account,
            sum(job.cpu_us or 0 for job in jobs),
        )  # fmt: skip


def is_whole(recorded: RunJobs, job: Job, windows: Sequence[tuple[int, int]]) -> bool:
    """Whether a job began and ended within one of the windows, CLOCK_MONOTONIC ns, and the log has its CPU."""
    if job.end is None or job.cpu_us is None:
        return False
    begin, end = recorded.monotonic_ns(job.begin), recorded.monotonic_ns(job.end)
    return any(first <= begin and end <= last for first, last in windows)


def _deleting_ns(sampled: JobSamples) -> int:
    return sum(sum(own.values()) for (_, part), own in sampled.weights.items() if part == DELETING)


def _totals(
    recorded: RunJobs, spans: Sequence[tuple[int, int]], seconds: float, queries: float | None
) -> Iterator[JobTotal]:
    jobs: dict[str, int] = {}
    cpu_us: dict[str, float] = {}
    for job in recorded.found.jobs:
        if job.end is None or job.cpu_us is None or job.end <= job.begin:
            continue
        begin, end = recorded.monotonic_ns(job.begin), recorded.monotonic_ns(job.end)
        inside = sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)
        if inside:
            jobs[job.kind] = jobs.get(job.kind, 0) + 1
            cpu_us[job.kind] = cpu_us.get(job.kind, 0.0) + job.cpu_us * min(1.0, inside / (end - begin))
    for kind, own in sorted(cpu_us.items(), key=lambda one: -one[1]):
        yield JobTotal(kind, jobs[kind], own / 1e6 / seconds, own / queries if queries else None)


def _stalls(stalls: Sequence[Stall]) -> Iterator[StallRow]:
    groups: dict[tuple[str, bool], list[Stall]] = defaultdict(list)
    for stall in stalls:
        groups[stall.cause, stall.stopped].append(stall)
    for (cause, stopped), own in sorted(groups.items()):
        lengths = [stall.end - stall.begin for stall in own if stall.end is not None]
        yield StallRow(
            cause, stopped, len(own), sum(lengths), max(lengths, default=0.0), sum(stall.end is None for stall in own)
        )


def fixed_part(kind: str, jobs: Sequence[Job]) -> FixedPart | None:
    """The CPU of a job of a kind that its output does not explain; None for fewer than ten jobs, or outputs alike.

    cpu = us + us_per_mib x MiB, by least squares with errors in proportion to the output: of cpu / MiB over 1 / MiB,
    whose slope is the fixed part. Its standard error is s / sqrt(Sxx), with n - 2 degrees of freedom.
    """
    sized = [(job.bytes_out / _MIB, job.cpu_us) for job in jobs if job.kind == kind and job.bytes_out]
    points = [(1 / mib, cpu / mib) for mib, cpu in sized if cpu is not None]
    n = len(points)
    if n < _FEWEST or not _differ([x for x, _ in points]):
        return None
    middle_x, middle_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    us = sum((x - middle_x) * (y - middle_y) for x, y in points) / spread
    us_per_mib = middle_y - us * middle_x
    residual = sum((y - us_per_mib - us * x) ** 2 for x, y in points) / (n - 2)
    half = t_quantile(0.95, n - 2) * math.sqrt(residual / spread)
    return FixedPart(kind, Interval(us, us - half, us + half, n), us_per_mib)


def _differ(values: Sequence[float]) -> bool:
    """Whether the upper quartile is above 1.5 times the lower: jobs of one size determine no line."""
    ordered = sorted(values)
    return ordered[3 * len(ordered) // 4] > 1.5 * ordered[len(ordered) // 4]


def unknown_threads(jobs: Sequence[Job]) -> set[int]:
    """Threads that ran jobs, and are in the log by their pthread_t."""
    return {job.tid for job in jobs if job.kernel_tid is None}


def activity(recorded: RunJobs, threads: Collection[int]) -> Activity:
    """Stretches of time in which the same of these threads are in a job, or delete after one; none without any."""
    edges: list[tuple[int, bool, int]] = []
    for job in recorded.found.jobs:
        if job.tid in threads and job.end is not None:
            edges.append((recorded.monotonic_ns(job.begin), True, job.tid))
            edges.append((recorded.monotonic_ns(job.deleted_until or job.end), False, job.tid))
    found: Activity = []
    running: dict[int, int] = {}
    edges.sort()
    for (at, begins, thread), (following, *_) in itertools.pairwise(edges):
        running[thread] = running.get(thread, 0) + (1 if begins else -1)
        busy = frozenset(one for one, count in running.items() if count > 0)
        if busy and following > at:
            found.append((at, following, busy))
    return found


def matched(
    times: Activity, weights: Mapping[tuple[int, int], int], totals: Mapping[int, int], least: int
) -> dict[int, int]:
    """The kernel's ids by the log's threads: a pair of which each is the only one for the other.

    weights: by kernel's thread and place in `times`; totals: of a kernel's thread, passed over below `least`
    """
    inside: dict[tuple[int, int], int] = {}
    for (tid, place), weight in weights.items():
        for thread in times[place][2]:
            inside[thread, tid] = inside.get((thread, tid), 0) + weight
    pairs = [(thread, tid) for (thread, tid), weight in inside.items()
             if totals[tid] >= least and weight >= _IN_JOBS * totals[tid]]  # fmt: skip
    threads, tids = [thread for thread, _ in pairs], [tid for _, tid in pairs]
    return {thread: tid for thread, tid in pairs if threads.count(thread) == tids.count(tid) == 1}


def job_requests(
    recorded: RunJobs, told: Requests, rows: Iterable[Request], tids: Mapping[int, int]
) -> list[JobDevice]:
    """By kind and output level. tids: the kernel's thread ids by what the engine's log has"""
    jobs = recorded.found.jobs
    window = [(told.start_ns, told.end_ns)]
    whole = {place for place, job in enumerate(jobs) if is_whole(recorded, job, window)}
    sums: dict[tuple[str, int | None], dict[str, int]] = {}
    for place in whole:
        job = jobs[place]
        own = sums.setdefault((job.kind, job.level), defaultdict(int))
        own["jobs"] += 1
        own["bytes_out"] += job.bytes_out
    by_thread: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for tid, begin, end, group in job_intervals(recorded, tids):
        by_thread[tid].append((begin, end, group // PARTS))
    made = {name: place for place, job in enumerate(jobs) for name in job.made}
    names = [file.path[0] if file.path else "" for file in told.files]
    for row in rows:
        sent = row.ended - row.device_ns - row.queue_ns
        found = _of_thread(by_thread.get(told.threads[row.thread].tid, ()), sent)
        if found is None and row.file != NOTHING:
            found = made.get(names[row.file])
        if found is None or found not in whole:
            continue
        own, operation = sums[jobs[found].kind, jobs[found].level], told.operations[row.operation]
        if operation in _COLUMNS:
            for column, value in zip(_COLUMNS[operation], (1, row.bytes, row.device_ns), strict=True):
                own[column] += value
        elif operation == _DISCARD:
            own["discards"] += 1
            own["discard_ns"] += row.device_ns
    return [
        JobDevice(kind, level, **sums[kind, level]) for kind, level in sorted(sums, key=lambda one: job_order(*one))
    ]


def _of_thread(intervals: list[tuple[int, int, int]] | tuple[()], moment: int) -> int | None:
    """The job of a thread at a moment. intervals: begin, end and job, in order of time"""
    at = bisect.bisect_right(intervals, moment, key=lambda one: one[0]) - 1
    return intervals[at][2] if at >= 0 and moment < intervals[at][1] else None
