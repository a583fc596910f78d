"""/proc/diskstats, read in one place (Documentation/admin-guide/iostats.rst of the kernel)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Counters of a line on the newest kernels; older ones have the first 11 or 15.
_COUNTERS = 17


@dataclass(frozen=True)
class DiskCount:
    """/proc/diskstats of one group of operations.

    ms: from each request's start (block_io_start) to its end (block_io_done), added up
    """

    requests: int = 0
    merged: int = 0
    sectors: int = 0
    ms: int = 0

    def since(self, before: DiskCount) -> DiskCount:
        return DiskCount(*(a - b for a, b in zip(vars(self).values(), vars(before).values(), strict=True)))

    @property
    def mean_ns(self) -> float | None:
        return self.ms * 1e6 / self.requests if self.requests else None


@dataclass(frozen=True)
class DiskCounts:
    """The groups of /proc/diskstats."""

    read: DiskCount
    write: DiskCount
    discard: DiskCount
    flush: DiskCount

    def since(self, before: DiskCounts) -> DiskCounts:
        return DiskCounts(*(a.since(b) for a, b in zip(vars(self).values(), vars(before).values(), strict=True)))


@dataclass(frozen=True)
class DiskStats:
    """A line: the device's name, and what it counted since boot."""

    name: str
    counts: DiskCounts


def whole_disk(major: int, minor: int) -> Path:
    """The directory in sysfs of a disk, of a partition its disk's."""
    own = Path(f"/sys/dev/block/{major}:{minor}").resolve()
    return own.parent if (own / "partition").exists() else own


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
