"""IO latency of a device: by operation, owner and stage; the commonest kinds of request."""

from __future__ import annotations

from typing import NamedTuple

from ground.results.histogram import Histogram
from ground.results.io_latency import IoKind, IoLatency
from viz.table import BYTES, COUNT, MS, US, WORDS, Column, Section, Table, histogram_columns

_KINDS = 12


class _Stage(NamedTuple):
    operation: str
    owner: str
    stage: str
    histogram: Histogram


def io_latency_section(latency: IoLatency) -> Section:
    device = latency.device
    pids = ", ".join(map(str, latency.pids)) + (" and children" if latency.children else "")
    stages = [
        _Stage(row.operation, row.owner, stage, getattr(row, stage))
        for row in latency.rows
        for stage in ("queue", "device", "total")
    ]
    columns = [
        Column[_Stage]("operation", "us", WORDS, lambda row: row.operation),
        Column("owner", "owner", WORDS, lambda row: row.owner),
        Column("stage", "stage", WORDS, lambda row: row.stage),
        *histogram_columns(lambda row: row.histogram, 99.99),
        Column("", "sum, ms", MS, lambda row: row.histogram.sum_ns, on="page"),
    ]
    kinds = [
        Column[IoKind]("", "operation", WORDS, lambda kind: kind.operation),
        Column("", "owner", WORDS, lambda kind: kind.owner),
        Column("", "size", BYTES, lambda kind: kind.bytes),
        Column("", "n", COUNT, lambda kind: kind.count),
        Column("", "mean, us", US, lambda kind: kind.total_ns / kind.count if kind.count else None),
        Column("", "flags", WORDS, lambda kind: " ".join(kind.flags)),
    ]
    return [
        f"IO latency of {device.name} (us; {device.major}:{device.minor}, {latency.seconds:.1f} s, process {pids})",
        f"{latency.backend}: {latency.how}",
        Table("iolat", "Latency of requests", columns, stages, where=lambda row: row.histogram.count > 0),
        Table("", "Kinds of request", kinds, latency.kinds, most=_KINDS),
    ]
