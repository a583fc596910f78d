"""The versions of an engine in their order: series of figures with their steps, CPU by category, noise of hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ground.results.history import VERSION, Category, History, Noise, Series
from ground.results.metrics import METRICS
from ioflame.analysis.change_points import Run, fit_history
from ioflame.analysis.quantiles import t_quantile

# Of two versions that a page compares; more degrees of freedom are as good as this many.
_SHOWN_FREEDOM = 60


@dataclass(frozen=True)
class Measured:
    """A figure of a run. round: what it shares with runs of other versions; created: sorts in time

    width: of a count, ln of its largest over its least repetition
    """

    test: str
    host: str
    label: str
    metric: str
    value: float
    round: str
    created: str
    width: float = 0.0


def in_order(created: Mapping[str, str]) -> list[str]:
    """Versions by their numbers; then labels that are none, by when they were first measured."""

    def place(label: str) -> tuple[bool, list[int], str, str]:
        if VERSION.fullmatch(label):
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
    versions = [one for one in every if VERSION.fullmatch(one) or any(fnmatchcase(one, some) for some in also)]
    taken = set(versions)
    for one in (one for one in measured if one.label in taken):
        groups.setdefault((one.test, one.host, one.metric), {}).setdefault(one.label, []).append(one)
    series = []
    for (test, host, metric), by_label in groups.items():
        labels = in_order(_first(one for runs in by_label.values() for one in runs))
        if len(labels) > 1:
            runs = [[Run(math.log(one.value), one.round) for one in by_label[label]] for label in labels]
            fit = fit_history(runs, deviation=_deviation(metric, [one for label in labels for one in by_label[label]]))
            created = [min(one.created for one in by_label[label]) for label in labels]
            series.append(Series(test, host, metric, labels, created, fit))
    costs = [one for one in categories if one.label in taken]
    left_out = [label for label in every if label not in taken]
    t = [t_quantile(0.95, freedom) for freedom in range(1, _SHOWN_FREEDOM)]
    return History(versions, series, costs, list(noise), left_out, t)


def _deviation(metric: str, counts: Sequence[Measured]) -> float | None:
    """What counts of one build differ by, as a part; None of a figure that is measured."""
    least = METRICS[metric].repeats_within if metric in METRICS else None
    return None if least is None else max(least, *(one.width / 2 for one in counts))
