"""What requests are called on a page and in a terminal, by what they are for; and sums of what is called the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ground.results.whose import OWNERS, ReasonRow, Whose, WhoseRow

_NO_DATA = {
    "sync": "asks for a flush, without data",
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
        return self.device_ns / self.requests / 1e3 if self.requests else 0.0


def file_label(kind: str, level: int | None, family: str = "") -> str:
    """`sst, L2`, with the column family where it is given."""
    return ", ".join(filter(None, (kind, "" if level is None else f"L{level}", family)))


def labelled(whose: Whose, operation: str) -> list[LabelledSum]:
    """The requests of an operation by what they are for, the most first."""
    several = len({row.column_family for row in whose.rows if row.column_family}) > 1
    return _sums((_label(row, several), row) for row in whose.of(operation))


def _label(row: WhoseRow, several: bool) -> str:
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


def level_matrix(whose: Whose, operation: str = "read") -> tuple[list[str], list[tuple[str, list[int]]]]:
    """Requests of files that have parts: the names of these, and for each level how many hold each, in their order."""
    rows = [row for row in whose.of(operation) if row.owner == "database" and row.holds]
    parts = list(dict.fromkeys(row.holds for row in rows))
    levels = sorted({row.level for row in rows}, key=lambda level: -1 if level is None else level)
    table = []
    for level in levels:
        counts = [sum(row.requests for row in rows if (row.level, row.holds) == (level, part)) for part in parts]
        table.append(("no level" if level is None else f"L{level}", counts))
    return parts, table


def reason_sums(whose: Whose, operation: str) -> list[LabelledSum]:
    """What requests of an operation were sent for, the most first."""
    return _sums((row.reason, row) for row in whose.reasons if row.operation == operation)


def _sums(rows: Iterable[tuple[str, WhoseRow | ReasonRow]]) -> list[LabelledSum]:
    found: dict[str, LabelledSum] = {}
    for label, row in rows:
        own = found.setdefault(label, LabelledSum(label))
        own.requests += row.requests
        own.bytes += row.bytes
        own.device_ns += row.device_ns
    return sorted(found.values(), key=lambda one: -one.requests)
