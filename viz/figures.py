"""Figures of a run that the page and the terminal both print: which, in what form, and what is worked out for both."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from ground.results.categories import Categories
from ground.results.interval import Interval
from ground.results.metrics import METRICS, host_changed
from ground.results.record import ObserverCost, RunRecord
from ground.text.titles import title_of

# Figures that are shown of each run, with their forms; and those of them that are read first.
HEADLINE = tuple((name, one.form_with_unit) for name, one in METRICS.items() if one.headline)
FIRST = tuple(name for name, one in METRICS.items() if one.first)


# Of an account's unit; from here on two digits behind the point are enough.
_LARGE = 10
# Of QPS: what is not known better than this is not called no effect.
_WIDE = 0.1
# Parts of `other` that are named.
_PARTS_NAMED = 4


class CannotBeError(Exception):
    """A file of a run holds a figure or a name that cannot be."""


def where_it_goes(record: RunRecord) -> str:
    """The head of the tables of categories."""
    counted = record.target is None or bool(record.target.count)
    return "Where the CPU of one query goes" if counted else "Where the CPU goes"


def engine_words(record: RunRecord) -> str:
    """The build, and what makes it unfit to be measured."""
    slow = " (assertions on: slower than a release build)" if record.tools.get("engine_assertions") == "yes" else ""
    return record.build + slow


def other_words(owner: Categories) -> str:
    """What `other` mostly is, by the parts view; "" where it has no weight or that is not known."""
    if not owner.rows or not owner.rows[-1].weight or not owner.other_parts:
        return ""
    other = owner.rows[-1]
    named = ", ".join(
        f"{_short(part.label) or part.name} {100 * part.weight / other.weight:.0f} %"
        for part in owner.other_parts[:_PARTS_NAMED]
    )
    return f"other, {other.share:.1f} % of the CPU, is mostly: {named}"


def _short(label: str) -> str:
    """Of what a category is, what comes before its details."""
    return re.split("[:;,]", label)[0]


def watching_words(record: RunRecord) -> str:
    """What watching did to QPS: a figure only where its interval excludes none, and no host that changed by itself;
    "" where nothing watched."""
    costs, host = record.costs, record.host_change
    if not costs:
        return ""
    if host is not None and host_changed(record):
        own = abs(host.qps_ratio.estimate - 1)
        most = all(abs(cost.qps_ratio.estimate - 1) <= own for cost in costs)
        return (
            f"QPS while watched: this host changed {'more than any observer' if most else 'by itself'}: "
            f"{host_change_words(host)}; what observers cost is not known"
        )
    seen = [cost for cost in costs if cost.qps_ratio.leaves_one]
    unseen = [cost for cost in costs if not cost.qps_ratio.leaves_one]
    wide = [cost for cost in unseen if _is_wide(cost.qps_ratio)]
    some = ", ".join(f"{kind} {qps} ({ends})" for kind, qps, ends in map(cost_cells, seen))
    none = ", ".join(title_of(cost.kind) for cost in unseen if not _is_wide(cost.qps_ratio))
    unknown = ", ".join(f"{kind} ({ends})" for kind, _, ends in map(cost_cells, wide))
    parts = [some, f"no measurable effect: {none}" if none else "", f"cannot be told: {unknown}" if unknown else ""]
    return "QPS while watched: " + "; ".join(filter(None, parts))


def _is_wide(ratio: Interval) -> bool:
    """Whether it includes changes that nobody would call none."""
    return ratio.low < 1 - _WIDE or ratio.high > 1 + _WIDE


def host_change_words(host: ObserverCost) -> str:
    """Of QPS, or of CPU per query where that alone did."""
    ratio, what = (
        (host.qps_ratio, "QPS") if host.qps_ratio.leaves_one else (host.cpu_ratio or host.qps_ratio, "CPU per query")
    )
    estimate, ends = _percents(ratio)
    return f"with nothing attached {what} differed by {estimate} ({ends})"


def cost_cells(cost: ObserverCost) -> list[str]:
    """The observer, its effect on QPS, and the interval."""
    return [title_of(cost.kind), *_percents(cost.qps_ratio)]


def _percents(ratio: Interval) -> tuple[str, str]:
    """The change, and both ends of its interval."""
    estimate, low, high = (f"{100 * (value - 1):+.1f}%" for value in (ratio.estimate, ratio.low, ratio.high))
    return estimate, f"{low} to {high}"


def figure_text(record: RunRecord, name: str) -> str:
    """A figure of the run with its unit, and in brackets its interval where it has one."""
    form, interval = METRICS[name].form_with_unit, record.intervals.get(name)
    figure = form.format(record.metrics[name])
    return figure if interval is None else f"{figure} [{interval_text(form, interval, ', ')}]"


def interval_text(form: str, interval: Interval, between: str) -> str:
    """Both ends of an interval as `form` prints its figure, without the unit."""
    bare = form.partition("}")[0] + "}"
    return f"{bare.format(interval.low)}{between}{bare.format(interval.high)}"


def number_text(value: float | None, digits: int, missing: str = "-", thousands: str = ",") -> str:
    """missing: in place of None; thousands: what parts them, "" in tables for programs"""
    if value is None:
        return missing
    return "inf" if math.isinf(value) else f"{value:{thousands}.{digits}f}"


def account_digits(whole: float) -> int:
    """Decimal places of the rows of an account that add up to `whole`: of requests per query hundredths matter."""
    return 2 if whole >= _LARGE else 4


def beside_base(
    values: Sequence[float | None], shown: Callable[[float], str], change: Callable[[float], str], compared: bool
) -> list[str]:
    """The base's value first; behind each other one, where they are compared, its change from that. "-": unknown"""
    base, cells = values[0], list[str]()
    for place, value in enumerate(values):
        cells.append("-" if value is None else shown(value))
        if place and compared:
            cells.append("-" if value is None or base is None else change(value - base))
    return cells
