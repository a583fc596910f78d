"""Category views of a profile, and the CPU of a target by kind of operation, as their files in a run directory hold
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ground.results.files import Files
from ground.results.interval import Interval
from ground.results.ranges import Amount, Count
from ground.system.atomic_files import read_json

# Percent in `other` above which a view of reads is none of what ran.
_UNKNOWN = 50


@dataclass(frozen=True)
class Category:
    """A row of a view: share in percent of all weight; samples None where they were not counted.

    interval: of the share, in percent: by the rounds of perf's turns, or by bootstrap over the seconds of its one
              window; None where they are too few
    bounds: between which the share of what really ran must be, in percent, whichever samples hold stolen time; None
            where next to nothing was stolen
    us_per_query, us_per_read: that share of the CPU of a query, and of a storage read; None where it is not known
    us_interval: of us_per_query, by the rounds: what varies of the share and of the CPU; None where it was one window
    """

    name: str
    label: str
    weight: Count
    share: Amount
    samples: Count | None
    interval: Interval | None = None
    us_per_query: Amount | None = None
    us_per_read: Amount | None = None
    bounds: tuple[Amount, Amount] | None = None
    us_interval: Interval | None = None


@dataclass(frozen=True)
class OtherFrame:
    """A frame that no rule knows, with the weight it brings into `other`."""

    frame: str
    weight: Count


@dataclass(frozen=True)
class OtherPart:
    """What of `other` is in one row of the parts view."""

    name: str
    label: str
    weight: Count


@dataclass(frozen=True)
class Categories:
    """`categories.json`: a whole view of one profile, its rows in the rules' order, `other` last.

    rules_checked: engine versions the rules were checked with
    description: what the view tells, as its rules say it
    other_parts: what `other` is by the parts view, the heaviest first; empty where the rules have no such view
    slices: the weight of each row, in the rows' order, in each second of the window; empty where it is not known
    """

    view: str
    rules_checked: list[str]
    total_weight: Count
    rows: list[Category]
    other_frames: list[OtherFrame]
    slices: list[list[Count]] = field(default_factory=list)
    description: str = ""
    other_parts: list[OtherPart] = field(default_factory=list)


def read_categories(directory: Path, view: str = "owner") -> Categories:
    """A category view in a run directory; MeasurementError when it is missing or of another form."""
    return read_json(directory / Files.of_view(view), Categories)


def knows_little(owner: Categories) -> bool:
    """Whether the owner view, which is of reads, knows less than half of what ran: it wrote."""
    return bool(owner.rows) and owner.rows[-1].share > _UNKNOWN


def telling_view(owner: Categories, writes: Categories | None) -> Categories:
    """The view that is shown first: of what reads the owner view, of what writes the other, where there is one."""
    return writes if writes is not None and knows_little(owner) else owner


def read_views(directory: Path) -> dict[str, Categories]:
    """All that a run directory holds, by their names."""
    return {view: read_categories(directory, view) for view in views_in(directory)}


def views_in(directory: Path) -> list[str]:
    """The category views in a run directory: the owner view first, the others in the order of the alphabet."""
    others = sorted(path.name.split(".")[1] for path in directory.glob(Files.of_view("*")))
    return [*(["owner"] if (directory / Files.CATEGORIES).exists() else []), *others]


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
