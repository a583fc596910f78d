"""What the requests of a device belong to: by operation, by level and part of the file, by reason, by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ground.results.request_attribution import OWNERS, AttributedRequests, FileRow, ReasonRow, RequestAttribution
from ground.text.tsv import Row
from viz.table import (
    ABOUT,
    BAR,
    BYTES,
    COUNT,
    NAME,
    PERCENT,
    WORDS,
    Block,
    Column,
    Form,
    Records,
    Section,
    Table,
    Value,
    fixed,
    matrix,
    tsv_only,
)

_OPERATIONS = ("read", "write", "flush", "discard", "other")
# Files that the screen has room for.
_FILES = 10
# Columns of a path on the screen; of a longer one the end is shown.
_LONGEST = 44
_PATH = Form(lambda path: path if len(path) <= _LONGEST else f"...{path[3 - _LONGEST :]}", NAME.page, left=True)
_NO_DATA = {
    "sync": "PREFLUSH without data, as fsync sends it",
    "flush": "flushes of the drive's cache",
    "discard": "discards of deleted files",
}
_BY = {"others": " (by other processes)", "kernel": " (by the kernel)"}


@dataclass
class LabelledSum:
    """Sums of requests with one label; times in ns."""

    label: str
    requests: float = 0
    bytes: float = 0
    device_ns: float = 0

    @property
    def mean_us(self) -> float:
        """At the device."""
        return self.device_ns / self.requests / 1e3 if self.requests else 0.0


def file_label(kind: str, level: int | None, family: str = "") -> str:
    """`sst, L2`, with the column family where it is given."""
    return ", ".join(filter(None, (kind, "" if level is None else f"L{level}", family)))


def labelled(attribution: RequestAttribution, operation: str) -> list[LabelledSum]:
    """The requests of an operation by what they are for, the most first."""
    several = len({row.column_family for row in attribution.rows if row.column_family}) > 1
    return _sums((_label(row, several), row) for row in attribution.of(operation))


def _label(row: AttributedRequests, several: bool) -> str:
    if row.owner == "no data":
        return _NO_DATA.get(row.kind, row.kind)
    if row.owner == "file system":
        return f"file system: {row.kind}"
    if row.owner != "database":
        return row.kind or OWNERS[row.owner]
    label = file_label(row.kind, row.level, row.column_family if several else "")
    # What is written is written in large parts, over many blocks.
    if row.holds and row.operation == "read":
        label += f", {row.holds}"
    return label + _BY.get(row.submitter, "")


def level_matrix(
    attribution: RequestAttribution, operation: str = "read"
) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """Requests of files that have parts: the names of these, and for each level how many hold each, in their order."""
    rows = [row for row in attribution.of(operation) if row.owner == "database" and row.holds]
    parts = list(dict.fromkeys(row.holds for row in rows))
    levels = sorted({row.level for row in rows}, key=lambda level: -1 if level is None else level)
    table = []
    for level in levels:
        counts = [sum(row.requests for row in rows if (row.level, row.holds) == (level, part)) for part in parts]
        table.append(("no level" if level is None else f"L{level}", counts))
    return parts, table


def reason_sums(attribution: RequestAttribution, operation: str) -> list[LabelledSum]:
    """What requests of an operation were sent for, the most first."""
    return _sums((row.reason, row) for row in attribution.reasons if row.operation == operation)


def _sums(rows: Iterable[tuple[str, AttributedRequests | ReasonRow]]) -> list[LabelledSum]:
    found: dict[str, LabelledSum] = {}
    for label, row in rows:
        own = found.setdefault(label, LabelledSum(label))
        own.requests += row.requests
        own.bytes += row.bytes
        own.device_ns += row.device_ns
    return sorted(found.values(), key=lambda one: -one.requests)


def attribution_section(attribution: RequestAttribution) -> Section:
    """Tables of what each request was for. Times are means at the device, us; shares are of all of the operation."""
    device = attribution.device
    pids = ", ".join(map(str, attribution.pids)) + (" and children" if attribution.children else "")
    section: list[Block] = [
        f"Requests of {device.name} ({device.major}:{device.minor}, {attribution.seconds:.1f} s), process {pids}"
    ]
    if attribution.directory:
        section.append(f"files of {attribution.engine} in {attribution.directory}")
    section.append(
        _coverage(attribution)
        if attribution.rows
        else f"No request of {device.name} ended in {attribution.seconds:.1f} s."
    )
    for operation in _OPERATIONS:
        sums = labelled(attribution, operation)
        columns = _sums_columns(sums, "belongs to")
        title = f"Requests by what they are for: {operation}"
        section.append(Table("", title, columns, sums, [_whole("all", sums)] if len(sums) > 1 else ()))
    parts, levels = level_matrix(attribution)
    total = sum(sum(counts) for _, counts in levels)
    rows: list[tuple[str, list[Value]]] = [
        (level, [*(f"{count:,} ({100 * count / total:.1f} %)" for count in counts), sum(counts)])
        for level, counts in levels
    ]
    legend = "Requests; shares are of all in the table. A read over the border of two parts is several."
    section.append(matrix("Reads by level, and by what is read", ["level", *parts, "all"], rows, legend=legend))
    return [
        *section,
        *_reasons(attribution),
        Records("requests", [_request_record(row) for row in attribution.rows]),
        _files(attribution),
        Records("reasons", [_reason_record(row) for row in attribution.reasons]),
    ]


def _coverage(attribution: RequestAttribution) -> str:
    """The rows against /proc/diskstats of the same window."""
    parts = []
    for operation in ("read", "write", "discard", "flush"):
        ours = attribution.count(attribution.of(operation))
        theirs = getattr(attribution.diskstats.outer, operation).requests if attribution.diskstats is not None else None
        if ours or theirs:
            plural = "es" if operation == "flush" else "s"
            parts.append(f"{ours:,}" + ("" if theirs is None else f" of {theirs:,}") + f" {operation}{plural}")
    words = f"In these tables are {', '.join(parts)}"
    words += "." if attribution.diskstats is None else ", as /proc/diskstats counts them."
    unknown = attribution.count(row for row in attribution.rows if row.owner == "unknown")
    return words + (f" What {unknown:,} of them belong to is not known." if unknown else "")


def _whole(label: str, sums: Iterable[LabelledSum]) -> LabelledSum:
    whole = LabelledSum(label)
    for one in sums:
        whole.requests += one.requests
        whole.bytes += one.bytes
        whole.device_ns += one.device_ns
    return whole


def _sums_columns(
    sums: Iterable[LabelledSum], head: str, about: Mapping[str, str] | None = None
) -> list[Column[LabelledSum]]:
    """about: what each label is"""
    total, about = _whole("all", sums).requests or 1, about or {}
    further = [
        Column[LabelledSum]("", "", BAR, lambda one: one.requests / total, on="page"),
        Column("", "what it is", ABOUT, lambda one: about.get(one.label), on="page"),
    ]
    return [
        Column("", head, WORDS, lambda one: one.label),
        Column("", "requests", COUNT, lambda one: one.requests),
        Column("", "%", PERCENT, lambda one: 100 * one.requests / total),
        Column("", "size", BYTES, lambda one: one.bytes),
        Column("", "us at the device", fixed(1), lambda one: one.mean_us),
        *(further if about else []),
    ]


def _reasons(attribution: RequestAttribution) -> Iterator[Table[LabelledSum]]:
    for operation in _OPERATIONS:
        sums = reason_sums(attribution, operation)
        rows = [row for row in attribution.reasons if row.operation == operation]
        columns = _sums_columns(sums, "reason", {row.reason: row.label for row in rows})
        sampled = sum(row.sampled for row in rows)
        legend = f"By {sampled:,} stack{'s' * (sampled != 1)} of the process's own requests, weighted to all of them."
        yield Table("", f"Why requests were sent: {operation}", columns, sums, legend=legend)


def _files(attribution: RequestAttribution) -> Table[FileRow]:
    columns = [
        Column[FileRow]("", "file", _PATH, lambda row: row.name or "(name not known)"),
        tsv_only("file", lambda row: row.name),
        tsv_only("title"),
        tsv_only("owner"),
        tsv_only("kind"),
        tsv_only("level"),
        tsv_only("column_family"),
        tsv_only("moved_from"),
        Column("reads", "reads", COUNT, lambda row: row.reads),
        Column("read_bytes", "read", BYTES, lambda row: row.read_bytes),
        tsv_only("read_device_ns"),
        Column("writes", "writes", COUNT, lambda row: row.writes),
        Column("write_bytes", "written", BYTES, lambda row: row.write_bytes),
        tsv_only("write_device_ns"),
        Column("", "of", ABOUT, _of_file),
    ]
    left, requests = attribution.files_left_out
    legend = f"{requests:,} requests were of {left:,} further files." if left else ""
    return Table("files", "Files with the most requests", columns, attribution.files, legend=legend, most=_FILES)


def _of_file(row: FileRow) -> str:
    of = file_label(row.kind, row.level, row.column_family) if row.owner == "database" else row.owner
    if row.moved_from is not None:
        of += f", moved from L{row.moved_from}"
    return f"{of} {row.title}".strip()


def _request_record(row: AttributedRequests) -> Row:
    return {
        "operation": row.operation, "owner": row.owner, "submitter": row.submitter, "kind": row.kind,
        "level": row.level, "column_family": row.column_family, "holds": row.holds, "requests": row.requests,
        "size_bytes": row.bytes, "queue_ns": row.queue_ns, "device_ns": row.device_ns,
    }  # fmt: skip


def _reason_record(row: ReasonRow) -> Row:
    return {
        "operation": row.operation, "reason": row.reason, "level": row.level, "sampled": row.sampled,
        "requests": row.requests, "size_bytes": row.bytes, "device_ns": row.device_ns, "about": row.label,
    }  # fmt: skip
