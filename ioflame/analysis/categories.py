"""The category tables of a folded profile, with the interval of each share."""

from __future__ import annotations

from typing import Any

import msgspec

from ground.results.categories import Categories
from ground.results.profile import Folded
from ioflame.analysis.bootstrap import share_intervals
from ioflame.analysis.checks.stolen_time import widened

__all__ = ("categories_of", "category_file")


def category_file(
    profile: Folded, view: str, cpu: tuple[float | None, float | None] = (None, None), stolen: int = 0
) -> dict[str, Any]:
    """`categories.json`: the view's table; with slices of time, each row's weight in each, and the interval of its
    share. `Categories` is what of it is read.

    cpu: CPU us of a query and of a storage read, to be shared out among the rows; None where it is not known
    stolen: the most of the weight that can be stolen time, which no bootstrap knows of
    """
    found = profile.views[view]
    rows = [dict(row) for row in found.report["rows"]]
    for row in rows:
        row["us_per_query"], row["us_per_read"] = (us if us is None else us * row["share"] / 100 for us in cpu)
    total = found.report["total_weight"]
    if profile.slices is None:
        for row in rows:
            row["interval"] = widened(None, row["weight"], total, stolen)
        return {**found.report, "rows": rows}
    slices = [[0] * len(rows) for _ in range(max(profile.slices.slice, default=-1) + 1)]
    columns = profile.slices
    for place, stack, weight in zip(columns.slice, columns.stack, columns.weight, strict=True):
        slices[place][found.row[stack]] += weight
    intervals = share_intervals([slices]) or [None] * len(rows)  # none without any weight
    for row, interval in zip(rows, intervals, strict=True):
        row["interval"] = widened(interval, row["weight"], total, stolen)
    return {**found.report, "rows": rows, "slices": slices}


def categories_of(table: dict[str, Any]) -> Categories:
    """What `category_file` gives as `read_categories` gives it."""
    return msgspec.convert(table, Categories, from_attributes=True)
