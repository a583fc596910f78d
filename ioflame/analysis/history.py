"""The versions of an engine in their order: series of figures with their steps, CPU by category, noise of hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ground.results.differences import Outcome
from ioflame.analysis.change_points import Feature, Fit, Run, fit_history
from ioflame.analysis.compare.figures import METRICS

__all__ = (
    "Category", "History", "Measured", "Noise", "Series", "ended", "history_of", "in_order", "largest_step",
    "verdict_at", "worse",
)  # fmt: skip

# 10.6.2, v10.7.0-rc1, rocksdb-10.6.fb; no arm (`A`), commit, or name of a program (`in /usr/bin/python3.11`).
_VERSION = re.compile(r"(?:[a-zA-Z]+[-_])?v?\d+(?:\.\d+)+[\w.+~-]*")
# A rate is better when it is higher.
_RATES = ("qps", "qps.relative")


@dataclass(frozen=True)
class Measured:
    """A figure of a run. round: what it shares with runs of other versions; created: sorts in time"""

    test: str
    host: str
    label: str
    metric: str
    value: float
    round: str
    created: str


@dataclass(frozen=True)
class Category:
    """CPU us per query of a category: the mean over runs; sd: from run to run, None of a single one"""

    test: str
    host: str
    label: str
    category: str
    us: float
    sd: float | None
    runs: int


@dataclass(frozen=True)
class Noise:
    """Of a host and day, in percent: standard deviation of QPS and of CPU per query from window to window; the twin's
    mean difference from the base and its standard deviation over blocks, None without twins."""

    host: str
    day: str
    runs: int
    qps_sd: float
    cpu_sd: float
    twin_mean: float | None
    twin_sd: float | None


@dataclass(frozen=True)
class Series:
    """A figure of one test on one host, by version. created: of each version's first run"""

    test: str
    host: str
    metric: str
    labels: list[str]
    created: list[str]
    fit: Fit

    @property
    def higher_is_worse(self) -> bool:
        return METRICS[self.metric].higher_is_worse if self.metric in METRICS else self.metric not in _RATES

    def value(self, at: int) -> float:
        return math.exp(self.fit.versions[at].mean)


@dataclass(frozen=True)
class History:
    """versions: all labels of it, in order; left_out: labels that are no versions, and were not asked for"""

    versions: list[str]
    series: list[Series]
    categories: list[Category] = field(default_factory=list)
    noise: list[Noise] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def is_older(self, label: str) -> bool:
        """Whether a newer version is there; a label that is no version is newer than none of them."""
        newest = next((one for one in reversed(self.versions) if _VERSION.fullmatch(one)), self.versions[-1])
        return self.versions.index(label) < self.versions.index(newest)


def in_order(created: Mapping[str, str]) -> list[str]:
    """Versions by their numbers; then labels that are none, by when they were first measured."""

    def place(label: str) -> tuple[bool, list[int], str, str]:
        if _VERSION.fullmatch(label):
            return False, [int(digits) for digits in re.findall(r"\d+", label)], "", label
        return True, [], created[label], label

    return sorted(created, key=place)


def _first(measured: Iterable[Measured]) -> dict[str, str]:
    """When each label was first measured."""
    first: dict[str, str] = {}
    for one in measured:
        first[one.label] = min(first.get(one.label, one.created), one.created)
    return first


def history_of(
    measured: Sequence[Measured],
    categories: Sequence[Category] = (),
    noise: Sequence[Noise] = (),
    also: Sequence[str] = (),
) -> History:
    """A series of two versions or more for each test, host and figure.

    also: patterns of labels that are taken although they are no versions
    """
    groups: dict[tuple[str, str, str], dict[str, list[Measured]]] = {}
    every = in_order(_first(measured))
    versions = [one for one in every if _VERSION.fullmatch(one) or any(fnmatchcase(one, some) for some in also)]
    taken = set(versions)
    for one in (one for one in measured if one.label in taken):
        groups.setdefault((one.test, one.host, one.metric), {}).setdefault(one.label, []).append(one)
    series = []
    for (test, host, metric), by_label in groups.items():
        labels = in_order(_first(one for runs in by_label.values() for one in runs))
        if len(labels) > 1:
            fit = fit_history([[Run(math.log(one.value), one.round) for one in by_label[label]] for label in labels])
            created = [min(one.created for one in by_label[label]) for label in labels]
            series.append(Series(test, host, metric, labels, created, fit))
    costs = [one for one in categories if one.label in taken]
    return History(versions, series, costs, list(noise), [label for label in every if label not in taken])


def verdict_at(series: Series, at: int) -> Outcome:
    """Of a version against the level of the first: regressed or improved where a step or dip of repeated runs lies
    between them and the interval of the levels' difference leaves zero; else undecided, whatever its figure is."""
    fit = series.fit
    base, here = fit.versions[0], fit.versions[at]
    change = here.level - base.level
    half = fit.half * math.hypot(here.level_error, base.level_error)
    if not fit.repeated or not change or abs(change) <= half:
        return Outcome.UNDECIDED
    return Outcome.REGRESSED if (change > 0) == series.higher_is_worse else Outcome.IMPROVED


def worse(series: Series, feature: Feature) -> bool:
    return (feature.ratio > 1) == series.higher_is_worse


def ended(history: History) -> dict[tuple[str, str], str]:
    """Tests and hosts that are no longer measured: the last version of each that lacks the newest of all."""
    last: dict[tuple[str, str], str] = {}
    for one in history.series:
        where, order = (one.test, one.host), history.versions.index
        last[where] = max(last.get(where, one.labels[-1]), one.labels[-1], key=order)
    return {where: label for where, label in last.items() if history.is_older(label)}


def largest_step(history: History) -> tuple[Series, Feature] | None:
    """A candidate only where there is no other; None where nothing was found."""
    found = [(one, feature) for one in history.series for feature in one.fit.features]
    return max(found, key=lambda pair: (not pair[1].candidate, abs(math.log(pair[1].ratio))), default=None)
