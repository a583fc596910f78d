"""`jobs.costs.json`: what background jobs of a run wrote, what they cost, and what stalled writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ground.results.interval import Interval
from ground.results.ranges import Amount, Count, Signed
from ground.system.atomic_files import json_reader


@dataclass(frozen=True)
class JobRow:
    """Jobs of one kind, output level and reason that ended within the windows.

    seconds: from begin to end, added up; cpu_us: by the engine's own account, None where it does not say it of all
    """

    kind: str
    level: Count | None
    reason: str
    jobs: Count
    bytes_in: Count
    bytes_out: Count
    seconds: Amount
    cpu_us: Count | None


@dataclass(frozen=True)
class JobCpu:
    """Jobs of one kind and output level that lie whole within perf's window.

    categories:  sampled ns by category, from begin to end
    account_ns:  sampled ns of the time that the engine's account covers; account_us: that account
    samples:     from begin to end
    """

    kind: str
    level: Count | None
    jobs: Count
    bytes_out: Count
    samples: Count
    categories: Mapping[str, Count]
    account_ns: Count
    account_us: Count

    @property
    def ns(self) -> int:
        return sum(self.categories.values())


@dataclass(frozen=True)
class JobDevice:
    """Requests of the device for jobs of one kind and output level that lie whole within the window of requests.

    Theirs are those that their threads sent, and later ones for a file that they made. times: ns at the device
    """

    kind: str
    level: Count | None
    jobs: Count
    bytes_out: Count
    reads: Count = 0
    read_bytes: Count = 0
    read_ns: Count = 0
    writes: Count = 0
    write_bytes: Count = 0
    write_ns: Count = 0
    discards: Count = 0
    discard_ns: Count = 0


@dataclass(frozen=True)
class FixedPart:
    """CPU of a job by its output: us + us_per_mib x MiB, by least squares over n jobs. us: the fixed part"""

    kind: str
    us: Interval
    us_per_mib: Signed


@dataclass(frozen=True)
class JobTotal:
    """All jobs of a kind over the windows, those that overlap an edge by their part in it.

    cpus: CPU seconds a second, by the engine's account; us_per_query: the same by queries, None without a count
    """

    kind: str
    jobs: Count
    cpus: Amount
    us_per_query: Amount | None


@dataclass(frozen=True)
class StallRow:
    """Stalls of one cause within the windows. longest: seconds; open: of them, those whose end is not known"""

    cause: str
    stopped: bool
    times: Count
    seconds: Amount
    longest: Amount
    open: Count


@dataclass(frozen=True)
class JobCosts:
    """seconds: of all windows; queries: in them, None without a count; queries_are: "write" or "query"

    labels: of categories; in_no_job_ns: sampled ns of the jobs' threads outside of any job and of deleting
    deleted, deleting_seconds, deleting_ns: files that jobs deleted after their end, how long, sampled ns
    held_back_seconds: that writers waited by the engine's own count, of stated_seconds; None where it says nothing
    """

    seconds: Amount
    queries_are: str
    rows: Sequence[JobRow] = ()
    cpu: Sequence[JobCpu] = ()
    device: Sequence[JobDevice] = ()
    fixed: Sequence[FixedPart] = ()
    totals: Sequence[JobTotal] = ()
    stalls: Sequence[StallRow] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    deleted: Count = 0
    deleting_seconds: Amount = 0.0
    deleting_ns: Count | None = None
    in_no_job_ns: Count | None = None
    held_back_seconds: Amount | None = None
    stated_seconds: Amount = 0.0
    notes: Sequence[str] = ()
    queries: Amount | None = None
    schema: int = 1


read_job_costs = json_reader(JobCosts, "costs of background jobs")
