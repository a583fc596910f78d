"""Whose the requests of a device are, as text: by operation, by level and part of the file, by reason, by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.whose import FileRow, Whose
from ground.text.units import format_bytes
from viz.terminal.columns import aligned, microseconds
from viz.whose_labels import LabelledSum, file_label, labelled, level_matrix, reason_sums

_OPERATIONS = ("read", "write", "flush", "discard", "other")
_FILES = 10
# Columns of a path; of a longer one the end is shown.
_LONGEST = 44


def whose_text(whose: Whose) -> str:
    """Tables of what each request was for. Times are means at the device, us; shares are of all of the operation."""
    device = whose.device
    pids = ", ".join(map(str, whose.pids)) + (" and children" if whose.children else "")
    lines = [f"Requests of {device.name} ({device.major}:{device.minor}, {whose.seconds:.1f} s), process {pids}"]
    if whose.directory:
        lines.append(f"files of {whose.engine} in {whose.directory}")
    for operation in _OPERATIONS:
        lines += _operation(whose, operation)
    parts, matrix = level_matrix(whose)
    if len(matrix) > 1 or len(parts) > 1:
        lines += ["", "Reads by level, and by what is read (requests)"]
        heads = ["", *parts, "all"]
        rows = [[level, *(f"{count:,}" for count in counts), f"{sum(counts):,}"] for level, counts in matrix]
        lines.append(aligned([heads, *rows]))
    lines += _reasons(whose)
    lines += _files(whose)
    return "\n".join(lines)


def _operation(whose: Whose, operation: str) -> Iterator[str]:
    sums = labelled(whose, operation)
    if not sums:
        return
    total = LabelledSum("all")
    for one in sums:
        total.requests += one.requests
        total.bytes += one.bytes
        total.device_ns += one.device_ns
    yield ""
    rows = [[f"{operation}: whose", "requests", "%", "size", "mean us"]]
    rows += [_cells(one, total.requests) for one in [*sums, *([total] if len(sums) > 1 else [])]]
    yield aligned(rows)


def _cells(one: LabelledSum, of: float) -> list[str]:
    share = f"{100 * one.requests / of:.1f}"
    return [
        one.label,
        f"{one.requests:,.0f}",
        share,
        format_bytes(one.bytes),
        microseconds(one.device_ns / one.requests, 1),
    ]


def _reasons(whose: Whose) -> Iterator[str]:
    for operation in _OPERATIONS:
        sums = reason_sums(whose, operation)
        if not sums:
            continue
        sampled = sum(row.sampled for row in whose.reasons if row.operation == operation)
        total = sum(one.requests for one in sums)
        stacks = "stack" if sampled == 1 else "stacks"
        yield ""
        yield f"Why they were sent: {operation} (by {sampled:,} {stacks})"
        rows = [["reason", "requests", "%", "size", "mean us"]]
        yield aligned([*rows, *(_cells(one, total) for one in sums)])


def _files(whose: Whose) -> Iterator[str]:
    if not whose.files:
        return
    yield ""
    yield "Files with the most requests"
    rows = [["", "of", "reads", "read", "writes", "written"]]
    rows += [_file(row) for row in whose.files[:_FILES]]
    yield aligned(rows)
    left, requests = whose.files_left_out
    rest: Sequence[FileRow] = whose.files[_FILES:]
    left, requests = left + len(rest), requests + sum(row.reads + row.writes for row in rest)
    if left:
        yield f"  and {requests:,} requests of {left:,} more files"


def _file(row: FileRow) -> list[str]:
    of = file_label(row.kind, row.level, row.column_family) if row.owner == "database" else row.owner
    if row.moved_from is not None:
        of += f" (from L{row.moved_from})"
    name = row.name or "(name not known)"
    if len(name) > _LONGEST:
        name = "..." + name[3 - _LONGEST :]
    if row.title:
        name += f" ({row.title})"
    return [
        name, of, f"{row.reads:,}", format_bytes(row.read_bytes), f"{row.writes:,}", format_bytes(row.write_bytes),
    ]  # fmt: skip
