"""What the eBPF observers count, as their files in a run directory hold it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.histogram import Histogram
from ground.results.ranges import Count, Turn, Windowed
from ground.system.atomic_files import json_reader
from ground.system.diskstats import DiskCounts


@dataclass(frozen=True)
class ProgramCost:
    """One eBPF program by the kernel's own account (bpf_stats): runs, their time in ns, and runs left out because the
    program was already running on that CPU (events it has not seen). Zeros where the kernel keeps no account for us.
    Runs and ns were accounted for the window's first second, and are given by the requests of all of it.
    """

    name: str
    runs: Count
    ns: Count
    missed: Count = 0


@dataclass(frozen=True)
class Device:
    """A block device; bio_based: it has no requests of its own (device mapper, md, zram)."""

    major: Count
    minor: Count
    name: str
    partition: bool = False
    bio_based: bool = False


@dataclass(frozen=True)
class DiskWindow:
    """What /proc/diskstats counted in the window: at least `inner`, at most `outer`.

    They are equal unless requests completed while the window was being opened or closed.
    """

    inner: DiskCounts
    outer: DiskCounts


@dataclass(frozen=True)
class IoRow:
    """Requests of one operation and owner, by the time they took, in ns.

    operation: `read`, `write`, `flush` (commands to the drive), `discard`, `other`
    owner:     `process` (one of the processes asked for began it) or `others`; what the kernel writes later from
               the page cache is `others`
    queue:     from its start to when the driver got it; empty where that is unknown (no requests, nothing to send)
    device:    from there to its end
    total:     both, from start to end: the time /proc/diskstats adds up
    """

    operation: str
    owner: str
    queue: Histogram
    device: Histogram
    total: Histogram


@dataclass(frozen=True)
class IoKind:
    """Requests of one operation, flags, size and owner.

    flags: the kernel's names (`sync`, `rahead`, `meta`, `fua`, `preflush`)
    bytes: its size with all that was merged into it
    """

    operation: str
    flags: list[str]
    bytes: Count
    owner: str
    count: Count
    total_ns: Count

    @property
    def flushes_and_writes(self) -> bool:
        """It empties the device's cache, and then writes data."""
        return self.operation == "write" and self.bytes > 0 and "preflush" in self.flags


@dataclass(frozen=True)
class IoSlice:
    """Total latency of the reads that ended since the slice before, as (low, high, count) in ns; for a heat map."""

    end_ns: Count
    process: list[tuple[Count, Count, Count]]
    others: list[tuple[Count, Count, Count]]


@dataclass(frozen=True)
class IoLatency(Windowed):
    """`iolat.json`: IO latency of one device within a window.

    backend:   `co-re`, `bpftrace` or `bcc`; how: which events it is from, and what of it is less than exact
    pids:      the processes whose requests are counted apart; children: those of their children too
    start_ns, end_ns: the window, CLOCK_MONOTONIC; turns: those within, where it was watched in turns
    losses:    events that were not counted, by reason; all 0 in a sound result
    facts:     what merely happened: `requeued` (the driver's queue was full), `merged`, `processes_ended`, `unfinished`
               (begun and not ended when the window closed), `held_back` (of the process's group, by its IO limit)
    diskstats: None where the kernel does not count for this device
    """

    backend: str
    how: str
    device: Device
    pids: list[Count]
    children: bool
    start_ns: Count
    end_ns: Count
    rows: list[IoRow]
    kinds: list[IoKind]
    slices: list[IoSlice]
    losses: dict[str, Count]
    facts: dict[str, Count] = field(default_factory=dict)
    diskstats: DiskWindow | None = None
    costs: list[ProgramCost] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    schema: int = 1

    def row(self, operation: str, owner: str) -> IoRow:
        """The row of that operation and owner; an empty one where nothing of it was counted."""
        for row in self.rows:
            if (row.operation, row.owner) == (operation, owner):
                return row
        return IoRow(operation, owner, Histogram(), Histogram(), Histogram())

    def count(self, operation: str) -> int:
        """Requests of that operation, whoever sent them."""
        return sum(row.total.count for row in self.rows if row.operation == operation)


read_io_latency = json_reader(IoLatency)
