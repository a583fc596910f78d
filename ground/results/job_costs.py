"""`jobs.costs.json`: what background jobs of a run wrote, what they cost, and what stalled writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.results.interval import Interval
from ground.system.atomic_files import read_json

__all__ = ("FixedPart", "JobCosts", "JobCpu", "JobDevice", "JobRow", "JobTotal", "StallRow", "read_job_costs")


@dataclass(frozen=True)
class JobRow:
    """Jobs of one kind, output level and reason that ended within the windows.

    seconds: from begin to end, added up; cpu_us: by the engine's own account, None where it does not say it of all
    """

    kind: str
    level: int | None
    reason: str
    jobs: int
    bytes_in: int
    bytes_out: int
    seconds: float
    cpu_us: int | None


@dataclass(frozen=True)
class JobCpu:
    """Jobs of one kind and output level that lie whole within perf's window.

    categories:  sampled ns by category, from begin to end
    account_ns:  sampled ns of the time that the engine's account covers; account_us: that account
    samples:     from begin to end
    """

    kind: str
    level: int | None
    jobs: int
    bytes_out: int
    samples: int
    categories: Mapping[str, int]
    account_ns: int
    account_us: int

    @property
    def ns(self) -> int:
        return sum(self.categories.values())


@dataclass(frozen=True)
class JobDevice:
    """Requests of the device for jobs of one kind and output level that lie whole within the window of requests.

    Theirs are those that their threads sent, and later ones for a file that they made. times: ns at the device
    """

    kind: str
    level: int | None
    jobs: int
    bytes_out: int
    reads: int = 0
    read_bytes: int = 0
    read_ns: int = 0
    writes: int = 0
    write_bytes: int = 0
    write_ns: int = 0
    discards: int = 0
    discard_ns: int = 0


@dataclass(frozen=True)
class FixedPart:
    """CPU of a job by its output: us + us_per_mib x MiB, by least squares over n jobs. us: the fixed part"""

    kind: str
    us: Interval
    us_per_mib: float


@dataclass(frozen=True)
class JobTotal:
    """All jobs of a kind over the windows, those that overlap an edge by their part in it.

    cpus: CPU seconds a second, by the engine's account; us_per_query: the same by queries, None without a count
    """

    kind: str
    jobs: int
    cpus: float
    us_per_query: float | None


@dataclass(frozen=True)
class StallRow:
    """Stalls of one cause within the windows. longest: seconds; open: of them, those whose end is not known"""

    cause: str
    stopped: bool
    times: int
    seconds: float
    longest: float
    open: int


@dataclass(frozen=True)
class JobCosts:
    """seconds: of all windows; queries: in them, None without a count; queries_are: "write" or "query"

    labels: of categories; in_no_job_ns: sampled ns of the jobs' threads outside of any job and of deleting
    deleted, deleting_seconds, deleting_ns: files that jobs deleted after their end, how long, sampled ns
    held_back_seconds: that writers waited by the engine's own count, of stated_seconds; None where it says nothing
    """

    seconds: float
    queries_are: str
    rows: Sequence[JobRow] = ()
    cpu: Sequence[JobCpu] = ()
    device: Sequence[JobDevice] = ()
    fixed: Sequence[FixedPart] = ()
    totals: Sequence[JobTotal] = ()
    stalls: Sequence[StallRow] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    deleted: int = 0
    deleting_seconds: float = 0.0
    deleting_ns: int | None = None
    in_no_job_ns: int | None = None
    held_back_seconds: float | None = None
    stated_seconds: float = 0.0
    notes: Sequence[str] = ()
    queries: float | None = None
    schema: int = 1


def read_job_costs(path: Path) -> JobCosts:
    """MeasurementError where it is missing or of another form."""
    return read_json(path, JobCosts, "costs of background jobs")
