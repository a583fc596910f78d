"""The versions of an engine in their order: series of figures with their steps, CPU by category, noise of hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ground.results.differences import Outcome
from ioflame.analysis.change_points import Feature, Fit, Run, fit_history
from ioflame.analysis.compare.figures import METRICS

__all__ = (
    "Category", "History", "Measured", "Noise", "Series", "ended", "history_of", "in_order", "largest_step",
    "verdict_at", "worse",
)  # fmt: skip

_VERSION = re.compile(r"\d+\.\d+")
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
    """versions: all labels, in order"""

    versions: list[str]
    series: list[Series]
    categories: list[Category] = field(default_factory=list)
    noise: list[Noise] = field(default_factory=list)


def in_order(created: Mapping[str, str]) -> list[str]:
    """Labels in the order of their versions; by when they were first measured where one of them is no version."""
    numbers = {label: [int(digits) for digits in re.findall(r"\d+", label)] for label in created}
    if all(_VERSION.search(label) for label in created):
        return sorted(created, key=lambda label: (numbers[label], label))
    return sorted(created, key=lambda label: (created[label], label))


def history_of(
    measured: Iterable[Measured], categories: Sequence[Category] = (), noise: Sequence[Noise] = ()
) -> History:
    """A series of two versions or more for each test, host and figure."""
    groups: dict[tuple[str, str, str], dict[str, list[Measured]]] = {}
    first: dict[str, str] = {}
    for one in measured:
        groups.setdefault((one.test, one.host, one.metric), {}).setdefault(one.label, []).append(one)
        first[one.label] = min(first.get(one.label, one.created), one.created)
    versions = in_order(first)
    series = []
    for (test, host, metric), by_label in groups.items():
        labels = [label for label in versions if label in by_label]
        if len(labels) > 1:
            fit = fit_history([[Run(math.log(one.value), one.round) for one in by_label[label]] for label in labels])
            created = [min(one.created for one in by_label[label]) for label in labels]
            series.append(Series(test, host, metric, labels, created, fit))
    return History(versions, series, list(categories), list(noise))


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
    return {where: label for where, label in last.items() if label != history.versions[-1]}


def largest_step(history: History) -> tuple[Series, Feature] | None:
    """A candidate only where there is no other; None where nothing was found."""
    found = [(one, feature) for one in history.series for feature in one.fit.features]
    return max(found, key=lambda pair: (not pair[1].candidate, abs(math.log(pair[1].ratio))), default=None)
