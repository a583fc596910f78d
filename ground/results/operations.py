"""`operations.json`: the CPU of a target by kind of operation: Get, Write ..., each by its own count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ground.results.categories import Categories
from ground.results.files import Files
from ground.results.interval import Interval
from ground.results.ranges import Amount, Count
from ground.system.atomic_files import read_json


@dataclass(frozen=True)
class Operation:
    """The stacks of one kind; the last one is `other`, which is of none.

    share:      percent of all weight of the perf window; interval: of it, None where the window has too few seconds
    cores:      that share of the CPU of the plain windows
    per_second: how many there were in the plain windows; None where nothing counts them
    us:         CPU us of one of them; None without a count
    categories: its stacks by the owner view, or that of writes, with us of one of them; None without a count
    """

    name: str
    label: str
    share: Amount
    samples: Count | None
    cores: Amount
    interval: Interval | None = None
    per_second: Amount | None = None
    us: Amount | None = None
    categories: Categories | None = None


def read_operations(directory: Path) -> list[Operation]:
    """Those of a run; none where its rules do not distinguish kinds, or it has no profile."""
    path = directory / Files.OPERATIONS
    return read_json(path, list[Operation], "CPU by kind of operation") if path.exists() else []
