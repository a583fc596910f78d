"""Category views of a profile, as their files in a run directory hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ioflame.files import Files
from ioflame.stats import Interval
from ioflame.whole import read_json

__all__ = ("Categories", "Category", "OtherFrame", "read_categories")


@dataclass(frozen=True)
class Category:
    """A row of a view: share in percent of all weight; samples None where they were not counted.

    interval: of the share, in percent, by bootstrap over the seconds of the window; None where they are too few
    """

    name: str
    label: str
    weight: int
    share: float
    samples: int | None
    interval: Interval | None = None


@dataclass(frozen=True)
class OtherFrame:
    """A frame that no rule knows, with the weight it brings into `other`."""

    frame: str
    weight: int


@dataclass(frozen=True)
class Categories:
    """`categories.json`: a whole view of one profile, its rows in the rules' order, `other` last.

    rules_checked: engine versions the rules were checked with
    slices: the weight of each row, in the rows' order, in each second of the window; empty where it is not known
    """

    view: str
    rules_checked: list[str]
    total_weight: int
    rows: list[Category]
    other_frames: list[OtherFrame]
    slices: list[list[int]] = field(default_factory=list)


def read_categories(directory: Path, view: str = "owner") -> Categories:
    """A category view in a run directory; MeasurementError when it is missing or of another form."""
    return read_json(directory / Files.of_view(view), Categories)
