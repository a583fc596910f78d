"""Which thread of the kernel is which of an engine's log, where that has a pthread_t: by when each of them ran."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from ground.results.jobs import Job, RunJobs

# Least share of its CPU that a thread of jobs spends within them: the rest is picking jobs.
_IN_JOBS = 0.9

# From begin until before end (CLOCK_MONOTONIC, ns), the threads of the log that are in a job then.
Activity = list[tuple[int, int, frozenset[int]]]


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
