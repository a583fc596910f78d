"""What the requests of a device belong to: file, level, column family, part of the file, and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ground.results.io_latency import Device, DiskWindow, ProgramCost
from ground.results.ranges import Amount, Count, Windowed
from ground.results.requests import OperationTotal
from ground.results.stored_files import StoredFile
from ground.system.atomic_files import json_reader

# To whom a request belongs, in the order of tables; and what that says to a reader.
OWNERS = {
    "database": "files of the database",
    "file system": "metadata and journal of the file system",
    "process": "other files of the process",
    "others": "other processes",
    "no data": "flushes and discards",
    "unknown": "unknown",
}
# What a request holds that lies over a border between two parts of its file.
SEVERAL = "several"


@dataclass(frozen=True)
class StoredFolder:
    """A folder that holds files of a database: its path below the database's directory, "" for that one itself, or a
    whole path where it lies elsewhere; and its inode.
    """

    path: str
    name: str
    inode: Count


@dataclass(frozen=True)
class StoredListing:
    """`stored.json`: the files of the database that requests are given to, as its engine names them.

    engine:    "" where no database is known
    directory: of the database
    folders:   that its files are in; `name` is the last part of the folder's real path
    files:     all that were there between two readings, at `begun_ns` and `ended_ns` (CLOCK_MONOTONIC)
    linked:    inodes of those that have other names as well, by the name here: the kernel may know them by another
    kinds:     the engine's patterns of names, with the kind of each, for a file that it has not listed
    notes:     what is not known of the files, in sentences
    failed:    why its engine could not name them; "" where it could
    """

    engine: str = ""
    directory: str = ""
    folders: list[StoredFolder] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    begun_ns: Count = 0
    ended_ns: Count = 0
    notes: list[str] = field(default_factory=list)
    failed: str = ""
    linked: dict[str, Count] = field(default_factory=dict)
    schema: int = 1


@dataclass(frozen=True)
class AttributedRequests:
    """Requests of one operation that are alike in what they are for; times in ns.

    operation: `read`, `write`, `flush` (commands to the drive), `discard`, `other`
    owner:     of OWNERS
    submitter: `process`, `kernel` (its threads: write-back, journal), `others`
    kind, level, column_family: of the file, by its engine; "" and None where it has none. Of what is no file's the kind
               is `metadata`, `journal`, `sync` (a write without data, which asks for a flush), `flush`, `discard` or
               `swap`
    holds:     what lies there in the file: `data`, `index` ...; SEVERAL over a border; "" where that is not known
    """

    operation: str
    owner: str
    submitter: str
    kind: str
    level: Count | None
    column_family: str
    holds: str
    requests: Count
    bytes: Count
    queue_ns: Count
    device_ns: Count


@dataclass(frozen=True)
class FileRow:
    """All requests of one file; times in ns.

    name:       below the database's directory, or its path as far as it was followed; "" where it is not known
    title:      what its users call it, where the name does not say it; else ""
    moved_from: the level it had at the beginning of the window, where it was moved within it
    """

    name: str
    title: str
    owner: str
    kind: str
    level: Count | None
    column_family: str
    moved_from: Count | None
    reads: Count
    read_bytes: Count
    read_device_ns: Count
    writes: Count
    write_bytes: Count
    write_device_ns: Count


@dataclass(frozen=True)
class ReasonRow:
    """Requests of the process by what they were sent for.

    sampled:  how many of them had a stack that says so; 0 where the reason is known otherwise
    requests, bytes, device_ns: of all, in proportion to those that had one
    """

    operation: str
    reason: str
    label: str
    level: Count | None
    sampled: Count
    requests: Amount
    bytes: Amount
    device_ns: Amount


@dataclass(frozen=True)
class RequestAttribution(Windowed):
    """`whose.json`: what the requests of one device belong to, in one window.

    engine, directory: of the database; "" where none is known
    failed:     why its engine could not name its files; "" where it could; notes: what it could not tell of them
    rows:       every request that is kept, once; the largest first
    files:      those with the most requests; files_left_out: how many more, with how many requests
    reasons:    empty where no stacks were taken; reasons_of: as `Requests.reasons`
    several_files: requests that hold pages of other files, too: they are given to the file of the first page
    moved:      requests of files that were moved to another level within the window
    unnamed:    requests of files whose names the kernel did not know any more
    unlisted:   requests of files in the database's directory of which neither engine nor name says what they are
    readahead:  reads that the kernel marked as such: all through the page cache, whether or not a call waits for them
    The rest as in `Requests`.
    """

    backend: str
    how: str
    device: Device
    pids: list[Count]
    children: bool
    start_ns: Count
    end_ns: Count
    engine: str
    directory: str
    failed: str
    notes: list[str]
    rows: list[AttributedRequests]
    files: list[FileRow]
    files_left_out: tuple[Count, Count]
    reasons: list[ReasonRow]
    reasons_of: Count
    several_files: Count
    moved: Count
    unnamed: Count
    unlisted: Count
    readahead: Count
    totals: dict[str, OperationTotal]
    losses: dict[str, Count]
    facts: dict[str, Count] = field(default_factory=dict)
    diskstats: DiskWindow | None = None
    costs: list[ProgramCost] = field(default_factory=list)
    schema: int = 1

    @property
    def requests(self) -> int:
        """All that ended in the window."""
        return sum(total.requests for total in self.totals.values())

    def of(self, operation: str) -> list[AttributedRequests]:
        """The rows of an operation, the largest first."""
        return [row for row in self.rows if row.operation == operation]

    @staticmethod
    def count(rows: Iterable[AttributedRequests]) -> int:
        """Requests of these rows."""
        return sum(row.requests for row in rows)


read_attribution = json_reader(RequestAttribution)
read_stored_listing = json_reader(StoredListing)
