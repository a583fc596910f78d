"""What others did on the host while the plain windows of a run were measured: CPU beside the workload's, reads of its
device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.host_load import BUSY_SHARE
from ground.results.record import RunRecord, Window

# Of the kernel's account of a CPU, as runs record it.
TICK_NS = 10_000_000
_FOREIGN_READS = 0.05
# Bytes a query: a twentieth of a block of 8 KiB. What a workload that answers from memory reads is less.
_FOREIGN_BYTES = 400


@dataclass(frozen=True)
class Others:
    """cpus: that others kept busy, of `host_cpus`, ioflame's looks at counters with them; None where that is not known

    read_share: of the bytes read from the device; bytes_per_query: the same by query, 0 without a count
    """

    cpus: float | None
    host_cpus: int
    read_share: float
    bytes_per_query: float

    @property
    def are_busy(self) -> bool:
        return self.cpus is not None and self.cpus > BUSY_SHARE * self.host_cpus

    @property
    def read_much(self) -> bool:
        """As a share and by query: where the workload reads next to nothing, any others are most of it."""
        return self.read_share > _FOREIGN_READS and not 0 < self.bytes_per_query <= _FOREIGN_BYTES

    @property
    def cpu_words(self) -> str:
        return "" if self.cpus is None else f"others used {self.cpus:.1f} of {self.host_cpus} CPUs"

    def prolonging(self, what: str) -> str:
        """What of them makes a wait longer, in words; "" where that is little. what: `cpu` or `reads`"""
        if what == "cpu":
            return self.cpu_words if self.are_busy else ""
        return f"others read {self.read_share:.0%} of what the device read" if what and self.read_much else ""


def others_in(record: RunRecord, windows: Sequence[Window]) -> Others:
    """windows: the plain ones of the record"""
    seconds = sum(window.seconds for window in windows)
    hosts = [window.counters.host for window in windows]
    times = [host for host in hosts if host is not None]
    count = record.host.get("cpus", "")
    cpus = None
    if seconds and count.isdigit() and int(count) and len(times) == len(windows):
        own = sum(window.counters.cpu_ns for window in windows)
        cpus = max(TICK_NS * sum(host.user + host.system for host in times) - own, 0) / 1e9 / seconds
    every = sum(window.counters.storage_read_bytes for window in windows)
    foreign = max(every - sum(window.counters.process_read_bytes for window in windows), 0)
    queries = sum(window.counters.queries or 0 for window in windows)
    return Others(
        cpus, int(count) if cpus is not None else 0, foreign / every if every else 0.0,
        foreign / queries if queries else 0.0,
    )  # fmt: skip
