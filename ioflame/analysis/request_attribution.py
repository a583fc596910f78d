"""Request attribution: each is given to a file of the database, a level, and what lies there in the file."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ground.results.request_attribution import (
    SEVERAL,
    AttributedRequests,
    FileRow,
    ReasonRow,
    RequestAttribution,
    StoredListing,
)
from ground.results.requests import NOTHING, Request, Requests, SeenFile
from ground.results.stored_files import StoredFile
from workloads.file_kinds import kind_of

# Of a request with a stack that no rule knows, of a file that no pattern fits; and of a request of the kernel's for a
# file that nobody is known to have made.
_OTHER, _WRITE_BACK = "other", "write-back"
# What `ReasonRow.label` says of those whose reason is not from a stack.
UNSAMPLED = "written later by the kernel, from the page cache"
# Listed one by one.
_FILES = 200
# Direct IO reads whole blocks of this size, or of the smaller one where its places are no multiples of it.
_PAGE, _SECTOR = 4096, 512
_JOURNAL_THREADS = ("jbd2/",)


@dataclass(frozen=True)
class _Subject:
    """What requests of a file belong to.

    moved: when it got `level` (CLOCK_MONOTONIC, ns); None where it kept it; known: its engine or name says what it is
    """

    name: str
    owner: str
    kind: str = ""
    level: int | None = None
    column_family: str = ""
    title: str = ""
    moved_from: int | None = None
    moved: float | None = None
    made_by: str = ""
    known: bool = True
    stored: StoredFile | None = None

    @cached_property
    def ends(self) -> list[int]:
        return [section.end for section in self.stored.sections] if self.stored is not None else []

    def level_at(self, ns: int) -> int | None:
        return self.moved_from if self.moved is not None and ns < self.moved else self.level

    def holds(self, offset: int, size: int) -> str:
        """What lies there. The first byte may be up to a block before what was asked for, the last up to one behind."""
        if not self.ends or not size:
            return ""
        assert self.stored is not None
        block = _SECTOR if (offset | size) % _PAGE else _PAGE
        first = bisect.bisect_right(self.ends, offset + block - 1)
        last = bisect.bisect_right(self.ends, max(offset, offset + size - block))
        most = len(self.ends) - 1
        sections = self.stored.sections
        one, other = sections[min(first, most)].holds, sections[min(last, most)].holds
        return one if one == other else SEVERAL


@dataclass
class _Sums:
    requests: int = 0
    bytes: int = 0
    queue_ns: int = 0
    device_ns: int = 0

    def add(self, request: Request) -> None:
        self.requests += 1
        self.bytes += request.bytes
        self.queue_ns += request.queue_ns
        self.device_ns += request.device_ns

    def merge(self, other: _Sums) -> None:
        self.requests += other.requests
        self.bytes += other.bytes
        self.queue_ns += other.queue_ns
        self.device_ns += other.device_ns


@dataclass
class _Group:
    """Requests that are alike but for their time and offset. file: its number, NOTHING without one; sampled: stacks are
    taken of their process; sums: by level, and by what lies there
    """

    operation: str
    submitter: str
    subject: _Subject
    file: int
    sampled: bool
    sums: dict[tuple[int | None, str], _Sums] = field(default_factory=dict)


class _DatabaseFiles:
    """The files of the database, by what the kernel knows of each."""

    def __init__(self, listing: StoredListing) -> None:
        self._files = {file.name: file for file in listing.files}
        self._folders = {(folder.inode, folder.name): folder.path for folder in listing.folders}
        # The root of a file system has no name there.
        self._folders |= {(folder.inode, ""): folder.path for folder in listing.folders}
        # Links of a checkpoint have the names that the files themselves have.
        self._linked = {(inode, name.rpartition("/")[2]): name for name, inode in listing.linked.items()}
        self._listing = listing

    def of(self, seen: SeenFile) -> _Subject | None:
        """None where it is no file of the database."""
        for depth in range(1, len(seen.path)):
            folder = self._folders.get((seen.inodes[depth], seen.path[depth]))
            if folder is not None:
                below = "/".join(reversed(seen.path[:depth]))
                return self._named(f"{folder}/{below}" if folder else below)
        linked = self._linked.get((seen.inode, seen.path[0])) if seen.path else None
        return None if linked is None else self._named(linked)

    def _named(self, name: str) -> _Subject:
        file = self._files.get(name)
        if file is None:
            kind = kind_of(name, self._listing.kinds)
            return _Subject(name, "database", kind, known=kind != _OTHER)
        listing, moved = self._listing, None
        if file.moved_from is not None:
            moved = listing.begun_ns + (file.moved_at or 0.0) * (listing.ended_ns - listing.begun_ns)
        return _Subject(
            name, "database", file.kind, file.level, file.column_family, file.title, file.moved_from, moved,
            file.made_by, stored=file,
        )  # fmt: skip


def _path(seen: SeenFile) -> str:
    """As far as it was followed; whole where it begins with a slash."""
    if not seen.path:
        return ""
    path = "/".join(reversed(seen.path))
    return path if seen.path[-1] == "" else f".../{path}"


class _Attribution:
    """Gives one request after the other to its subject: what it belongs to."""

    def __init__(self, traced: Requests, listing: StoredListing, reasons: Mapping[int, str]) -> None:
        self._traced = traced
        self._reasons = reasons
        files = _DatabaseFiles(listing)
        self._database = [files.of(seen) for seen in traced.files]
        # What matters of a thread: whether it writes the journal, and whether stacks are taken of its process.
        self._threads = [
            (thread.name.startswith(_JOURNAL_THREADS), thread.pid == traced.pids[0]) for thread in traced.threads
        ]
        self._meta, self._readahead = traced.flags.get("meta", 0), traced.flags.get("rahead", 0)
        self._elsewhere: dict[tuple[int, str], _Subject] = {}
        self._groups: dict[tuple[int, int, int, int, bool, bool, tuple[bool, bool]], _Group] = {}
        self.sampled: dict[tuple[str, str, int | None], _Sums] = {}
        self.several = self.readahead = 0

    @property
    def groups(self) -> Iterable[_Group]:
        return self._groups.values()

    def add(self, request: Request) -> None:
        key = (
            request.operation, request.submitter, request.found, request.file, bool(request.flags & self._meta),
            not request.bytes, self._threads[request.thread],
        )  # fmt: skip
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._group(request)
        subject = group.subject
        level = subject.level_at(request.ended)
        holds = subject.holds(request.offset, request.bytes)
        sums = group.sums.get((level, holds))
        if sums is None:
            sums = group.sums[level, holds] = _Sums()
        sums.add(request)
        self.several += request.several
        self.readahead += request.operation == 0 and bool(request.flags & self._readahead)
        if group.sampled and request.stack != NOTHING:
            reason = self._reasons.get(request.stack, _OTHER)
            self.sampled.setdefault((group.operation, reason, level), _Sums()).add(request)

    def _group(self, request: Request) -> _Group:
        traced = self._traced
        operation, submitter = traced.operations[request.operation], traced.submitters[request.submitter]
        subject = self._subject_of(request, operation, submitter)
        sampled = submitter == "process" and self._threads[request.thread][1]
        return _Group(operation, submitter, subject, request.file, sampled)

    def _subject_of(self, request: Request, operation: str, submitter: str) -> _Subject:
        found = self._traced.found[request.found]
        if found in ("cached", "direct"):
            known = self._database[request.file]
            if known is not None:
                return known
            seen = self._traced.files[request.file]
            if seen.path or not request.flags & self._meta:
                owner = "process" if submitter == "process" else "others"
                return self._shared(request.file, owner, _path(seen))
            # A tree of the file system's own, which it keeps as a file without a name.
            found = "file_system"
        if found == "file_system":
            return self._shared(
                NOTHING, "file system", kind="journal" if self._threads[request.thread][0] else "metadata"
            )
        if found == "no_data":
            return self._shared(NOTHING, "no data", kind="sync" if operation == "write" else operation)
        owner = "others" if found == "swap" or submitter == "others" else "unknown"
        return self._shared(NOTHING, owner, kind=found if found == "swap" else "")

    def _shared(self, file: int, owner: str, name: str = "", kind: str = "") -> _Subject:
        """One for all requests that belong to it."""
        return self._elsewhere.setdefault((file, owner + kind), _Subject(name, owner, kind))


def attribute_requests(
    traced: Requests,
    rows: Iterable[Request],
    listing: StoredListing,
    reasons: Mapping[int, str],
    labels: Mapping[str, str],
) -> RequestAttribution:
    """What the requests of a window were for. reasons: by the number of the stack; labels: of those reasons"""
    attribution = _Attribution(traced, listing, reasons)
    for request in rows:
        attribution.add(request)
    files = sorted(_file_rows(attribution.groups), key=lambda row: -(row.reads + row.writes))
    left = files[_FILES:]

    def requests_of(which: Callable[[_Group], bool]) -> int:
        return sum(sums.requests for group in attribution.groups if which(group) for sums in group.sums.values())

    return RequestAttribution(
        traced.backend, traced.how, traced.device, traced.pids, traced.children, traced.start_ns, traced.end_ns,
        listing.engine, listing.directory, listing.failed, list(listing.notes),
        rows=_rows(attribution.groups),
        files=files[:_FILES],
        files_left_out=(len(left), sum(row.reads + row.writes for row in left)),
        reasons=_reason_rows(attribution, labels) if traced.reasons else [],
        reasons_of=traced.reasons,
        several_files=attribution.several,
        moved=requests_of(lambda group: group.subject.moved_from is not None),
        unnamed=requests_of(lambda group: group.file != NOTHING and not group.subject.name),
        unlisted=requests_of(lambda group: not group.subject.known),
        readahead=attribution.readahead,
        totals=traced.totals,
        losses=traced.losses,
        facts=traced.facts,
        diskstats=traced.diskstats,
        costs=traced.costs,
    )  # fmt: skip


def _rows(groups: Iterable[_Group]) -> list[AttributedRequests]:
    found: dict[tuple[str, str, str, str, int | None, str, str], _Sums] = {}
    for group in groups:
        subject = group.subject
        for (level, holds), sums in group.sums.items():
            key = group.operation, subject.owner, group.submitter, subject.kind, level, subject.column_family, holds
            found.setdefault(key, _Sums()).merge(sums)
    rows = [AttributedRequests(*key, **vars(sums)) for key, sums in found.items()]
    return sorted(rows, key=lambda row: (-row.requests, row.operation, row.kind, row.level or 0, row.holds))


def _file_rows(groups: Iterable[_Group]) -> Iterator[FileRow]:
    found: dict[int, tuple[_Subject, dict[str, _Sums]]] = {}
    for group in groups:
        if group.file != NOTHING:
            # One that the process and others use is the process's.
            subject, by_operation = found.get(group.file, (group.subject, {}))
            found[group.file] = (group.subject if subject.owner == "others" else subject, by_operation)
            for sums in group.sums.values():
                by_operation.setdefault(group.operation, _Sums()).merge(sums)
    for subject, by_operation in found.values():
        read, write = by_operation.get("read", _Sums()), by_operation.get("write", _Sums())
        yield FileRow(
            subject.name, subject.title, subject.owner, subject.kind, subject.level, subject.column_family,
            subject.moved_from, read.requests, read.bytes, read.device_ns, write.requests, write.bytes, write.device_ns,
        )  # fmt: skip


def _reason_rows(attribution: _Attribution, labels: Mapping[str, str]) -> list[ReasonRow]:
    """Requests with a stack, scaled to all that the process sent of that operation."""
    sent, sampled = dict[str, int](), dict[str, int]()
    later = dict[tuple[str, str, int | None], _Sums]()
    for group in attribution.groups:
        for (level, _), sums in group.sums.items():
            if group.sampled:
                sent[group.operation] = sent.get(group.operation, 0) + sums.requests
            elif group.submitter == "kernel" and group.subject.owner == "database" and group.operation == "write":
                later.setdefault((group.operation, group.subject.made_by or _WRITE_BACK, level), _Sums()).merge(sums)
    for (operation, _, _), sums in attribution.sampled.items():
        sampled[operation] = sampled.get(operation, 0) + sums.requests
    found = []
    # Where no stack is known, its rules are another engine's.
    known = any(reason != _OTHER for _, reason, _ in attribution.sampled)
    for (operation, reason, level), sums in attribution.sampled.items() if known else ():
        times = sent[operation] / sampled[operation]
        scaled = (times * value for value in (sums.requests, sums.bytes, sums.device_ns))
        found.append(ReasonRow(operation, reason, labels.get(reason, ""), level, sums.requests, *scaled))
    for (operation, reason, level), sums in later.items():
        found.append(ReasonRow(operation, reason, UNSAMPLED, level, 0, sums.requests, sums.bytes, sums.device_ns))
    return sorted(found, key=lambda row: (-row.requests, row.operation, row.reason, row.level or 0))
