"""The versions of an engine in their order: series of figures with their steps, CPU by category, noise of hosts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from ground.results.differences import Outcome
from ground.results.metrics import METRICS
from ground.results.ranges import Amount, Count, Ends, Signed

# 10.6.2, v10.7.0-rc1, rocksdb-10.6.fb; no arm (`A`), commit, or name of a program (`in /usr/bin/python3.11`).
VERSION = re.compile(r"(?:[a-zA-Z]+[-_])?v?\d+(?:\.\d+)+[\w.+~-]*")


@dataclass(frozen=True)
class Level:
    """What a version's runs say, and the level it lies on. All are logarithms.

    mean, error: of its runs, rounds taken out; level: of its stretch, or its own in a dip; level_error: of that
    """

    mean: Signed
    error: Amount
    runs: Count
    level: Signed
    level_error: Amount


@dataclass(frozen=True)
class Feature(Ends):
    """A change of level. at: the first version of the new level, counted from 0

    dip:       of this one version: the next is back
    ratio:     new level over old; low, high: its 95 % interval
    went_away: at which version the old level was there again; None where it was not
    candidate: without repeats it is no verdict
    """

    at: Count
    dip: bool
    ratio: Amount
    low: Amount
    high: Amount
    went_away: Count | None
    candidate: bool


@dataclass(frozen=True)
class Fit:
    """versions: in their order; sd: of ln of one run; freedom: of sd; repeated: whether sd is of repeats

    half: of a 95 % interval, in standard errors
    """

    versions: list[Level]
    features: list[Feature]
    sd: Amount
    freedom: Count
    repeated: bool
    half: Amount


@dataclass(frozen=True)
class Category:
    """CPU us per query of a category: the mean over runs; sd: from run to run, None of a single one"""

    test: str
    host: str
    label: str
    category: str
    us: Amount
    sd: Amount | None
    runs: Count


@dataclass(frozen=True)
class Noise:
    """Of a host and day, in percent: standard deviation of QPS and of CPU per query from window to window; the twin's
    mean difference from the base and its standard deviation over blocks, None without twins."""

    host: str
    day: str
    runs: Count
    qps_sd: Amount
    cpu_sd: Amount
    twin_mean: Signed | None
    twin_sd: Amount | None


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
        return METRICS[self.metric].higher_is_worse if self.metric in METRICS else True

    def value(self, at: int) -> float:
        return math.exp(self.fit.versions[at].mean)

    def verdict_at(self, at: int) -> Outcome:
        """Of a version against the level of the first: regressed or improved where a step or dip of repeated runs lies
        between them and the interval of the levels' difference leaves zero; else undecided, whatever its figure is."""
        base, here = self.fit.versions[0], self.fit.versions[at]
        change = here.level - base.level
        half = self.fit.half * math.hypot(here.level_error, base.level_error)
        if not self.fit.repeated or not change or abs(change) <= half:
            return Outcome.UNDECIDED
        return Outcome.REGRESSED if (change > 0) == self.higher_is_worse else Outcome.IMPROVED

    def worse(self, feature: Feature) -> bool:
        return (feature.ratio > 1) == self.higher_is_worse


@dataclass(frozen=True)
class History:
    """versions: all labels of it, in order; left_out: labels that are no versions, and were not asked for

    t: the 95 % points of Student's t for 1, 2 ... degrees of freedom
    """

    versions: list[str]
    series: list[Series]
    categories: list[Category] = field(default_factory=list)
    noise: list[Noise] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    t: list[Amount] = field(default_factory=list)

    def is_older(self, label: str) -> bool:
        """Whether a newer version is there; a label that is no version is newer than none of them."""
        newest = next((one for one in reversed(self.versions) if VERSION.fullmatch(one)), self.versions[-1])
        return self.versions.index(label) < self.versions.index(newest)

    def ended(self) -> dict[tuple[str, str], str]:
        """Tests and hosts that are no longer measured: the last version of each that lacks the newest of all."""
        last: dict[tuple[str, str], str] = {}
        for one in self.series:
            where = (one.test, one.host)
            last[where] = max(last.get(where, one.labels[-1]), one.labels[-1], key=self.versions.index)
        return {where: label for where, label in last.items() if self.is_older(label)}

    def largest_step(self) -> tuple[Series, Feature] | None:
        """A candidate only where there is no other; None where nothing was found."""
        found = [(one, feature) for one in self.series for feature in one.fit.features]
        return max(found, key=lambda pair: (not pair[1].candidate, abs(math.log(pair[1].ratio))), default=None)
