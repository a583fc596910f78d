"""Which requests of a device were for which background job: by the thread that sent them, else by the file."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ground.results.job_costs import JobDevice
from ground.results.jobs import RunJobs, job_order
from ground.results.requests import NOTHING, Request, Requests
from ioflame.analysis.jobs import PARTS, is_whole, job_intervals

# Operations as `Requests.operations` has them, and the columns of a row.
_COLUMNS = {"read": ("reads", "read_bytes", "read_ns"), "write": ("writes", "write_bytes", "write_ns")}
_DISCARD = "discard"


def job_requests(
    recorded: RunJobs, told: Requests, rows: Iterable[Request], tids: Mapping[int, int]
) -> list[JobDevice]:
    """By kind and output level. tids: the kernel's thread ids by what the engine's log has"""
    jobs = recorded.found.jobs
    window = (told.start_ns, told.end_ns)
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
