"""/proc/diskstats, read in one place (Documentation/admin-guide/iostats.rst of the kernel)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ioflame.latency import DiskCount, DiskCounts

__all__ = ("DiskStats", "disk_stats", "parse_disk_stats")

# Counters of a line on the newest kernels; older ones have the first 11 or 15.
_COUNTERS = 17


@dataclass(frozen=True)
class DiskStats:
    """A line: the device's name, and what it counted since boot."""

    name: str
    counts: DiskCounts


def disk_stats() -> dict[tuple[int, int], DiskStats]:
    """Every device that the kernel counts for, now, by (major, minor)."""
    return parse_disk_stats(Path("/proc/diskstats").read_text(encoding="utf-8"))


def parse_disk_stats(text: str) -> dict[tuple[int, int], DiskStats]:
    """The same of a text; counters that its kernel does not know are 0."""
    found = {}
    for line in text.splitlines():
        major, minor, name, *words = line.split()
        numbers = [*map(int, words), *[0] * _COUNTERS]
        found[int(major), int(minor)] = DiskStats(
            name,
            DiskCounts(
                read=DiskCount(*numbers[0:4]),
                write=DiskCount(*numbers[4:8]),
                discard=DiskCount(*numbers[11:15]),
                flush=DiskCount(requests=numbers[15], ms=numbers[16]),
            ),
        )
    return found
