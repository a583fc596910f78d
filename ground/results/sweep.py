"""`sweep.json`: how latency grows with the rate at which queries come, run by run, as `ioflame sweep` measured it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.ranges import Amount, Count
from ground.results.study import StudyRun

# As the client names them.
PERCENTILES = ("p50", "p99", "p99_9")


@dataclass
class Offered:
    """A run of the client. Latencies are us.

    rate:       queries a second that became due; None of the run without a rate, where each thread asks again at once
    per_second: that were answered
    latency:    by percentile, from the moment that a query was due to its end; of the run without a rate from the call;
                empty where it was overloaded
    late:       how late the client itself began, its 99th percentile: so much of the latency may be its own
    cpu:        us of CPU a query
    """

    rate: Amount | None
    per_second: Amount
    queries: Count
    seconds: Amount
    latency: dict[str, Amount] = field(default_factory=dict)
    late: Amount = 0.0
    cpu: Amount = 0.0
    overloaded: bool = False


@dataclass
class SweepRecord:
    """percentile, limit_us: that a rate has to keep; None where only overload ends the search

    closed: without a rate; offered: in the order in which they ran; command: of a run
    """

    ioflame: str
    created: str
    engine: str
    version: str
    workload: str
    threads: Count
    arrivals: str
    percentile: str
    limit_us: Amount | None
    closed: Offered
    offered: list[Offered] = field(default_factory=list)
    database: str = ""
    command: str = ""
    host: dict[str, str] = field(default_factory=dict)
    schema: int = 1


class SweepRun(StudyRun[SweepRecord]):
    """The directory of a sweep: its record, the client's output and report of every run."""

    file = "sweep.json"
    form = SweepRecord
    what = "a sweep"
    kind = "sweep"

    def summary(self) -> tuple[str, str]:
        record = self.record
        rates = f"{len(record.offered)} rates; without one {record.closed.per_second:,.0f} queries a second"
        threads = f"{record.threads} thread{'s' * (record.threads != 1)}"
        return f"{record.workload}, {record.engine} {record.version}, {threads}", rates
