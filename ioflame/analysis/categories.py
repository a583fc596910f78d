"""The category tables of a folded profile: the interval of each share, and its part of the CPU of a query; and the CPU
of each kind of operation. No other module of Python works out us per query of a category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ground.results.categories import Categories, Operation, knows_little
from ground.results.interval import Interval
from ground.results.metrics import MODE_COUNTER, MODE_METRIC, few_reads
from ground.results.profile import Folded
from ground.results.record import RunRecord, Window
from ground.results.roles import OTHER, READER, WRITES_VIEW, role_figures
from ioflame.analysis.bootstrap import share_intervals
from ioflame.analysis.checks.stolen_time import share_bounds, stolen_of
from ioflame.analysis.rounds import ProfiledRounds

_OWNER, _PARTS = "owner", "parts"
# The view of a service's rules whose rows are kinds of operation.
OPERATIONS_VIEW = "operations"


def metric_profiled(record: RunRecord) -> str:
    """The figure that the run's profile divides up: CPU us per query, in the modes that its event counts."""
    return MODE_METRIC[record.profile.mode if record.profile else "all"]


def cpu_profiled(record: RunRecord) -> tuple[float | None, float | None]:
    """CPU us per query and per storage read that the run's profile divides up; None where it was not measured."""
    name, metrics = metric_profiled(record), record.metrics
    per_query, reads = metrics.get(name), metrics.get("readsPerQuery")
    if per_query is None:
        return None, metrics.get("cpuPerRead") if name == MODE_METRIC["all"] else None
    return per_query, None if not reads or few_reads(reads) else per_query / reads


def cpu_of_all_roles(record: RunRecord) -> float | None:
    """CPU us per query that a profile of all threads divides up: of all roles, where there are any."""
    figures = role_figures(window for window in record.windows if window.kind == "plain")
    return sum(one.us_per_query or 0.0 for one in figures) or cpu_profiled(record)[0]


def part_of(us: float, share: float) -> float:
    """us of a category, whose share in percent of `us` it is."""
    return us * share / 100


def part_interval(us: float, share: Interval, n: int) -> Interval:
    """`part_of` for a share in percent that has an interval."""
    return Interval(part_of(us, share.estimate), part_of(us, share.low), part_of(us, share.high), n)


def _parts(cpu: tuple[float | None, float | None], share: float) -> list[float | None]:
    return [None if us is None else part_of(us, share) for us in cpu]


def category_files_of_run(profile: Folded, views: Iterable[str], record: RunRecord) -> dict[str, dict[str, Any]]:
    """`category_file` of each of these views of a run's profile."""
    cpu, stolen, rounds = cpu_profiled(record), stolen_of(record), ProfiledRounds.of(record, profile.slices)
    return {view: category_file(profile, view, cpu, stolen, rounds) for view in views}


def category_file(
    profile: Folded,
    view: str,
    cpu: tuple[float | None, float | None] = (None, None),
    stolen: int = 0,
    rounds: ProfiledRounds | None = None,
) -> dict[str, Any]:
    """`categories.json`: the view's table; with slices of time, each row's weight in each, and the interval of its
    share. `Categories` is what of it is read.

    cpu: CPU us of a query and of a storage read, to be shared out among the rows; None where it is not known
    stolen: the most of the weight that can be stolen time
    rounds: in which it was measured, where it was in turns
    """
    found = profile.views[view]
    rows = [dict(row) for row in found.report["rows"]]
    report = {**found.report, "other_parts": _other_parts(profile, view)}
    for row in rows:
        row["us_per_query"], row["us_per_read"] = _parts(cpu, row["share"])
        if stolen and found.report["total_weight"]:
            bounds = share_bounds(row["weight"], found.report["total_weight"], stolen)
            row["bounds"] = [100 * bound for bound in bounds]
    if profile.slices is None:
        return {**report, "rows": rows}
    slices = [[0] * len(rows) for _ in range(max(profile.slices.slice, default=-1) + 1)]
    columns = profile.slices
    for place, stack, weight in zip(columns.slice, columns.stack, columns.weight, strict=True):
        slices[place][found.row[stack]] += weight
    if rounds is None:
        intervals = share_intervals([slices]) or [None] * len(rows)  # none without any weight
        for row, interval in zip(rows, intervals, strict=True):
            row["interval"] = interval
        return {**report, "rows": rows, "slices": slices}
    every = [sum(weights) for weights in slices]
    for place, row in enumerate(rows):
        own = [weights[place] for weights in slices]
        row["interval"] = rounds.share(own, every)
        row["us_interval"] = rounds.us(own, every, cpu[0]) if cpu[0] is not None else None
    return {**report, "rows": rows, "slices": slices}


def costed(found: Categories, record: RunRecord) -> Categories:
    """With CPU us of a query and of a storage read in each row, for files of before they had them."""
    if any(row.us_per_query is not None or row.us_per_read is not None for row in found.rows):
        return found
    cpu = cpu_profiled(record)
    rows = []
    for row in found.rows:
        per_query, per_read = _parts(cpu, row.share)
        rows.append(replace(row, us_per_query=per_query, us_per_read=per_read))
    return replace(found, rows=rows)


def _other_parts(profile: Folded, view: str) -> list[dict[str, Any]]:
    """`Categories.other_parts` of the owner view."""
    if view != _OWNER or _PARTS not in profile.views:
        return []
    owners, parts = profile.views[view], profile.views[_PARTS]
    other = len(owners.report["rows"]) - 1
    weights: Counter[int] = Counter()
    for owner, part, weight in zip(owners.row, parts.row, profile.stacks.weight, strict=True):
        if owner == other:
            weights[part] += weight
    rows = parts.report["rows"]
    named = ((rows[place], weight) for place, weight in weights.most_common() if weight)
    return [{"name": row["name"], "label": row["label"], "weight": weight} for row, weight in named]


def categories_of(table: dict[str, Any]) -> Categories:
    """What `category_file` gives as `read_categories` gives it."""
    return msgspec.convert(table, Categories, from_attributes=True)


def writing_roles(profile: Folded, record: RunRecord) -> Mapping[str, Categories]:
    """What each role that writes does: the view of writes of its threads, with its own CPU per query. The role that
    used most comes first; none where roles were not told apart, or the rules have no such view."""
    if WRITES_VIEW not in profile.views or record.target is not None:
        return {}
    found = {}
    for one in role_figures(window for window in record.windows if window.kind == "plain"):
        if one.role not in (READER, OTHER):
            own = profile.of_threads(record.roles.get(one.role, []))
            found[one.role] = categories_of(category_file(own, WRITES_VIEW, (one.us_per_query, None)))
    return {role: table for role, table in found.items() if table.total_weight}


def operations_of(folded: Folded, plain: Sequence[Window], mode: str, stolen: int = 0) -> list[Operation]:
    """Every kind, in the order of the rules; none where the rules have no kinds, or nothing was sampled.

    plain: windows with nothing attached, whose CPU and counts are shared out; mode: what of the CPU was sampled;
    stolen: the most of the weight that can be stolen time
    """
    if OPERATIONS_VIEW not in folded.views or not folded.statistics.weight or not plain:
        return []
    cpu_us = sum(getattr(window.counters, MODE_COUNTER[mode]) for window in plain) / 1e3
    seconds = sum(window.seconds for window in plain)
    counted = {
        kind: sum(window.counters.operations.get(kind, 0.0) for window in plain)
        for kind in plain[0].counters.operations
        if all(kind in window.counters.operations for window in plain)
    }
    found = []
    for row in categories_of(category_file(folded, OPERATIONS_VIEW, stolen=stolen)).rows:
        count, own_us = counted.get(row.name), cpu_us * row.share / 100
        us = own_us / count if count else None
        table = None
        if us is not None:
            own = folded.of_row(OPERATIONS_VIEW, row.name)
            table = categories_of(category_file(own, "owner", (us, None), stolen))
            if knows_little(table) and WRITES_VIEW in own.views:
                table = categories_of(category_file(own, WRITES_VIEW, (us, None), stolen))
        per_second = None if count is None else count / seconds
        cores = own_us / 1e6 / seconds
        found.append(Operation(row.name, row.label, row.share, row.samples, cores, row.interval, per_second, us, table))
    return found
