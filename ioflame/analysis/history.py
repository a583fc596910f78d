"""The versions of an engine in their order: series of figures with their steps, CPU by category, noise of hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ground.results.history import Category, History, Noise, Series
from ioflame.analysis.change_points import Run, fit_history
from ioflame.analysis.quantiles import t_quantile

__all__ = ("Measured", "history_of", "in_order")

_VERSION = re.compile(r"\d+\.\d+")
# Of two versions that a page compares; more degrees of freedom are as good as this many.
_SHOWN_FREEDOM = 60


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
    t = [t_quantile(0.95, freedom) for freedom in range(1, _SHOWN_FREEDOM)]
    return History(versions, series, list(categories), list(noise), t)
