"""The requests of a block device in a window, one by one, as `ioflame-ebpf requests` writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ground.errors import MeasurementError
from ground.results.io_latency import Device, DiskWindow, ProgramCost
from ground.results.ranges import Count, Windowed
from ground.system.atomic_files import json_reader, read_whole

# Of Request.file and Request.stack: there is none.
NOTHING = 0xFFFF_FFFF
# `Row` of ebpf/src/requests/ended.rs.
_ROW = struct.Struct("<QQIIIIIIIBBBB")


class Request(NamedTuple):
    """One request; numbers of operation, found, submitter, file and thread are places in the lists of `Requests`.

    ended:  CLOCK_MONOTONIC, ns
    offset: of its first byte in the file
    queue_ns, device_ns: until the driver got it, and from there to its end; 4.29 s at most
    flags:  as the kernel has them; `Requests.flags` has their masks
    file, stack: NOTHING where there is none
    several: 1 where what was merged into it is of another file
    """

    ended: int
    offset: int
    queue_ns: Count
    device_ns: Count
    bytes: Count
    flags: int
    file: int
    thread: int
    stack: int
    operation: int
    found: int
    submitter: int
    several: int


@dataclass(frozen=True)
class OperationTotal:
    """All requests of an operation that ended in the window, those that are not kept one by one too; times in ns."""

    requests: Count = 0
    bytes: Count = 0
    queue_ns: Count = 0
    device_ns: Count = 0


@dataclass(frozen=True)
class SeenFile:
    """A file, as it was called when its first request was seen.

    device: of its file system, (major, minor); inode, generation: an inode that is used again has another generation
    path:   its name, its directory's, that one's ..., at most five; empty where the kernel did not know it any more.
            The root of a file system is ""
    inodes: of each part
    """

    device: tuple[Count, Count]
    inode: Count
    generation: Count
    path: list[str]
    inodes: list[Count]


@dataclass(frozen=True)
class SeenThread:
    """tid, pid: as our pid namespace numbers them; 0 where they are not visible there"""

    tid: Count
    pid: Count
    name: str


@dataclass(frozen=True)
class Requests(Windowed):
    """`requests.json`: what the rows of `requests.data` mean.

    pids:       the processes whose requests are counted apart; children: those of their children too
    start_ns, end_ns: the window, CLOCK_MONOTONIC
    reasons:    one read of the first process in so many has a stack, of its other requests one in an eighth of that; 0:
                none
    operations, found, submitters: what the numbers in the rows mean
    flags:      masks by the kernel's names
    totals:     by operation; rows: how many requests are kept one by one
    losses:     what was not seen or not kept, by reason; all 0 in a sound result
    facts:      what merely happened: `requeued`, `merged`, `processes_ended`, `unfinished` (under way when the window
                closed), `direct_calls_seen` (0 where this kernel does not show the files of direct IO), `held_back`
                (by the IO limit of a control group)
    diskstats:  None where the kernel does not count for this device
    """

    backend: str
    how: str
    device: Device
    pids: list[Count]
    children: bool
    start_ns: Count
    end_ns: Count
    reasons: Count
    operations: list[str]
    found: list[str]
    submitters: list[str]
    flags: dict[str, Count]
    totals: dict[str, OperationTotal]
    rows: Count
    files: list[SeenFile]
    threads: list[SeenThread]
    losses: dict[str, Count]
    facts: dict[str, Count] = field(default_factory=dict)
    diskstats: DiskWindow | None = None
    costs: list[ProgramCost] = field(default_factory=list)
    schema: int = 1


read_requests = json_reader(Requests)


def request_rows(path: Path, requests: Requests) -> Iterator[Request]:
    """The rows of `requests.data`, in the order in which they ended.

    MeasurementError where they do not fit `requests`: too many or too few, or with numbers that it does not define.
    """
    data = read_whole(path)
    if len(data) != requests.rows * _ROW.size:
        raise MeasurementError(
            f"{path} holds {len(data)} bytes, not {requests.rows} requests of {_ROW.size}",
            means="it is cut short, or of another window",
        )
    threads, files = len(requests.threads), (NOTHING, len(requests.files))
    kinds = len(requests.operations), len(requests.found), len(requests.submitters)
    for row in map(Request._make, _ROW.iter_unpack(data)):
        known = row.thread < threads and (row.file == files[0] or row.file < files[1])
        if not known or row.operation >= kinds[0] or row.found >= kinds[1] or row.submitter >= kinds[2]:
            raise MeasurementError(f"{path} names what its run does not know: {row}")
        yield row
