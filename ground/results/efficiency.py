"""What an experiment of steps found, as its tables and its page show it: all figures with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.results.categories import Categories
from ground.results.cells import Baseline, Judged, Value
from ground.results.experiment import StepRecord
from ground.results.interval import Interval
from ground.results.record import RunRecord, Window

__all__ = (
    "CategoryShare",
    "CategoryTable",
    "Change",
    "Differences",
    "Efficiency",
    "EfficiencyRow",
    "FioRuns",
    "MeasuredStep",
)


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step with its run: record, owner view, leaf view, and the seconds of its windows."""

    step: StepRecord
    record: RunRecord
    owner: Categories
    leaf: Categories
    series: Sequence[Window]

    def view(self, name: str) -> Categories:
        return self.owner if name == "owner" else self.leaf


@dataclass(frozen=True)
class EfficiencyRow:
    """A step with so many users, all its repeats together; a figure that cannot be had is left out."""

    step: str
    users: int
    repeats: Sequence[MeasuredStep]
    figures: Mapping[str, Value]


@dataclass(frozen=True)
class FioRuns:
    """fio with so many users: its runs in the order they were made, and by the names of `Baseline` their medians."""

    users: int
    runs: Sequence[Baseline]
    medians: Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """Between two steps. percent: of the first; None where no difference is seen; of_fio: fio's runs differ as much."""

    percent: float | None
    of_fio: bool = False


@dataclass(frozen=True)
class Differences:
    """From one step to another, by figure; one is left out that has too few seconds for an interval."""

    first: str
    last: str
    users: int
    changes: Mapping[str, Change]


@dataclass(frozen=True)
class CategoryShare:
    """A category of a row: weight over all repeats, share of it in percent, CPU us per query."""

    name: str
    weight: int
    share: float
    interval: Interval | None
    us_per_query: float


@dataclass(frozen=True)
class CategoryTable:
    """A view of all steps with one number of users. samples, shares: by step

    moves: by category, from the first step to the last: `falls`, `rises`, `none seen`, or `-` without intervals
    """

    view: str
    users: int
    samples: Mapping[str, int]
    shares: Mapping[str, Sequence[CategoryShare]]
    moves: Mapping[str, str]


@dataclass(frozen=True)
class Efficiency:
    """Rows by users, then in the order of the steps. orders: whether shares move as published"""

    measured: Sequence[MeasuredStep]
    rows: Sequence[EfficiencyRow]
    fio: Sequence[FioRuns]
    differences: Sequence[Differences]
    categories: Sequence[CategoryTable]
    orders: Sequence[tuple[str, Judged]]
