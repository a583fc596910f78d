"""What a step wrote, in the columns of RocksDB's performance page (its wiki, 2020) and of benchmark.sh.

L0_GB is what came from memtables (flushes), Sum_GB what flushes and compactions wrote together: flushes are part of the
engine's "Cumulative compaction", so adding both, as benchmark.sh once did, counts them twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ground.text.units import truncate

__all__ = ("COLUMNS", "Writes", "columns")


@dataclass
class Writes:
    """A step's writes, by the engine's own statistics. GB is 2**30 bytes; p50 to p99_99 in us; du_kib of its directory.

    found: share of the operations that touched a key that was there; 1 for writes
    """

    threads: int
    ops_per_second: float
    bytes_per_op: int
    size_gb: float
    l0_gb: float
    sum_gb: float
    uptime: float
    stall_seconds: float
    du_kib: int
    found: float = 1.0
    p50: float | None = None
    p75: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    p99_99: float | None = None


COLUMNS = {
    "ops/sec": "operations a second",
    "mb/sec": "MiB of keys and values a second",
    "Size-GB": "size of the levels, GiB",
    "L0_GB": "written by flushes, GiB",
    "Sum_GB": "written by flushes and compactions, GiB",
    "W-Amp": "Sum_GB / L0_GB, cut",
    "W-MB/s": "Sum_GB * 1024 / Uptime, cut",
    "usec/op": "threads * 1e6 / ops/sec",
    "p50": "us",
    "p75": "us",
    "p99": "us",
    "p99.9": "us",
    "p99.99": "us",
    "Uptime": "seconds the engine was open",
    "Stall-time": "seconds writes were held back",
    "Stall%": "Stall-time / Uptime",
    "du": "KiB of the directory",
}


def columns(writes: Writes, digits: int = 1) -> dict[str, str]:
    """The row of a step, by the names of `COLUMNS`; ratios are cut, as the page's are. digits: of the GB columns."""
    # By decimals: 0.7 / 0.1 is 6.999... in binary, and would be cut to 6.9.
    sum_gb, l0_gb, uptime = (Decimal(str(v)) for v in (writes.sum_gb, writes.l0_gb, writes.uptime))
    percentiles = {
        "p50": writes.p50, "p75": writes.p75, "p99": writes.p99, "p99.9": writes.p99_9, "p99.99": writes.p99_99,
    }  # fmt: skip
    return {
        "ops/sec": f"{writes.ops_per_second:.0f}",
        "mb/sec": f"{writes.ops_per_second * writes.bytes_per_op * writes.found / 2**20:.1f}",
        "Size-GB": f"{writes.size_gb:.{digits}f}",
        "L0_GB": f"{writes.l0_gb:.{digits}f}",
        "Sum_GB": f"{writes.sum_gb:.{digits}f}",
        "W-Amp": truncate(sum_gb / l0_gb, 1) if l0_gb else "0",
        "W-MB/s": truncate(sum_gb * 1024 / uptime, 1) if uptime else "-",
        "usec/op": f"{writes.threads * 1e6 / writes.ops_per_second:.1f}" if writes.ops_per_second else "-",
        **{name: "-" if value is None else f"{value:.1f}" for name, value in percentiles.items()},
        "Uptime": f"{writes.uptime:.1f}",
        "Stall-time": f"{writes.stall_seconds:.3f}",
        "Stall%": f"{100 * writes.stall_seconds / writes.uptime:.1f}" if writes.uptime else "-",
        "du": str(writes.du_kib),
    }
