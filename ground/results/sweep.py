"""`sweep.json`: how latency grows with the rate at which queries come, run by run, as `ioflame sweep` measured it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ground.errors import MeasurementError, UsageError
from ground.results.ranges import Amount, Count
from ground.system.atomic_files import read_json, write_json

_SCHEMA = 1
NAME = "sweep.json"
# As the client names them.
PERCENTILES = ("p50", "p99", "p99_9")


class Offered(msgspec.Struct):
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
    latency: dict[str, Amount] = {}
    late: Amount = 0.0
    cpu: Amount = 0.0
    overloaded: bool = False


class SweepRecord(msgspec.Struct):
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
    offered: list[Offered] = []
    database: str = ""
    command: str = ""
    host: dict[str, str] = {}
    schema: int = _SCHEMA


def write_sweep(directory: Path, record: SweepRecord) -> None:
    write_json(directory / NAME, record)


def read_sweep(directory: Path) -> SweepRecord:
    """UsageError where there is none, MeasurementError where it is broken."""
    file = directory / NAME
    if not file.is_file():
        raise UsageError(f"{directory} holds no {NAME}", mend="ioflame sweep <the directory of a sweep>")
    found = read_json(file, SweepRecord, "a record of a sweep")
    if found.schema != _SCHEMA:
        raise MeasurementError(f"{file} has schema {found.schema}; this ioflame reads schema {_SCHEMA}")
    return found
