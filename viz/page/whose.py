"""Whose the requests of a device are, on a page: level by part of the file, reasons, files, what is covered."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.whose import FileRow, Whose
from ground.text.units import format_bytes
from viz.page.rendering import absent, table
from viz.svg.elements import element
from viz.svg.share_bar import share_bar
from viz.whose_labels import LabelledSum, file_label, labelled, level_matrix, reason_sums

_OPERATIONS = ("read", "write", "flush", "discard", "other")
_FILES = 40
_HEADS = ["", "requests", "%", "size", "mean us at the device"]


def whose_panel(whose: Whose) -> Markup:
    """Tables and bars of what each request was for, and whether they are all of the device's."""
    if not whose.rows:
        return absent(f"No request of {whose.device.name} ended in {whose.seconds:.1f} s.")
    told = _coverage(whose) + _matrix(whose)
    for operation in _OPERATIONS:
        sums = labelled(whose, operation)
        if sums:
            total = sum(one.requests for one in sums)
            rows = [_cells(one, total) for one in sums]
            told += table(f"Requests by what they are for: {operation}", _HEADS, rows)
    for operation in ("read", "write"):
        told += _reasons(whose, operation)
    return told + _files(whose)


def _coverage(whose: Whose) -> Markup:
    """One line: the rows against /proc/diskstats of the same window."""
    parts = []
    for operation in ("read", "write", "discard", "flush"):
        ours = whose.count(whose.of(operation))
        theirs = getattr(whose.diskstats.outer, operation).requests if whose.diskstats is not None else None
        if ours or theirs:
            plural = "es" if operation == "flush" else "s"
            parts.append(f"{ours:,}" + ("" if theirs is None else f" of {theirs:,}") + f" {operation}{plural}")
    words = f"{whose.device.name}, {whose.seconds:.1f} s. In these tables are {', '.join(parts)}"
    words += "." if whose.diskstats is None else ", as /proc/diskstats counts them."
    unknown = whose.count(row for row in whose.rows if row.owner == "unknown")
    if unknown:
        words += f" Whose {unknown:,} of them are is not known."
    return element("p", words)


def _matrix(whose: Whose) -> Markup:
    parts, matrix = level_matrix(whose)
    if not matrix:
        return Markup("")
    total = sum(sum(counts) for _, counts in matrix)
    rows = [
        [level, *(f"{count:,} ({100 * count / total:.1f} %)" for count in counts), f"{sum(counts):,}"]
        for level, counts in matrix
    ]
    legend = "Requests; shares are of all in the table. A read over the border of two parts is several."
    return table("Reads by level, and by what is read", ["level", *parts, "all"], rows, legend=legend)


def _reasons(whose: Whose, operation: str) -> Markup:
    sums = reason_sums(whose, operation)
    if not sums:
        return Markup("")
    total = sum(one.requests for one in sums)
    sampled = sum(row.sampled for row in whose.reasons if row.operation == operation)
    about = {row.reason: row.label for row in whose.reasons if row.operation == operation}
    shares = [100 * one.requests / total for one in sums]
    rows = [
        [
            one.label, share_bar(share, None, max(shares), "h0"), f"{share:.1f}", f"{one.requests:,.0f}",
            format_bytes(one.bytes), about[one.label],
        ]
        for one, share in zip(sums, shares, strict=True)
    ]  # fmt: skip
    stacks = "stack" if sampled == 1 else "stacks"
    legend = f"By {sampled:,} {stacks} of the process's own requests, weighted to all of them."
    heads = ["reason", "", "%", "requests", "size", "what it is"]
    return table(f"Why requests were sent: {operation}", heads, rows, "numbers noted", legend)


def _files(whose: Whose) -> Markup:
    rows = [_file(row) for row in whose.files[:_FILES]]
    if not rows:
        return Markup("")
    left = whose.files_left_out[0] + len(whose.files[_FILES:])
    legend = f"And {left:,} more in whose.json." if left else ""
    return table(
        "Files with the most requests",
        ["file", "reads", "read", "writes", "written", "of"],
        rows,
        "numbers noted",
        legend,
    )


def _file(row: FileRow) -> list[str]:
    of = file_label(row.kind, row.level, row.column_family) if row.owner == "database" else row.owner
    if row.moved_from is not None:
        of += f", moved from L{row.moved_from}"
    name = element("span", row.name or "name not known", class_="name")
    size, written = format_bytes(row.read_bytes), format_bytes(row.write_bytes)
    return [name, f"{row.reads:,}", size, f"{row.writes:,}", written, f"{of} {row.title}".strip()]


def _cells(one: LabelledSum, total: float) -> list[str]:
    share = f"{100 * one.requests / total:.1f}"
    return [one.label, f"{one.requests:,.0f}", share, format_bytes(one.bytes), f"{one.mean_us:.1f}"]
