"""The category tables of an experiment, step beside step, and whether the shares move as published."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.cells import Judged
from ground.results.efficiency import CategoryTable
from ground.results.interval import Interval
from viz.terminal.columns import aligned
from viz.weights import percentages

__all__ = ("render_categories", "render_orders")


def render_categories(found: CategoryTable, width: int | None = None) -> str:
    """A view of all steps with one number of users: share with its interval, and us per query."""
    view, users, columns = found.view, found.users, list(found.shares.values())
    table = [[view, *(head for step in found.shares for head in (f"{step} %", "95 %", "us/query")), "first to last"]]
    shown = [percentages([category.weight for category in categories]) for categories in columns]
    for i, category in enumerate(columns[0]):
        if view != "owner" and not any(categories[i].weight for categories in columns):
            continue
        cells = []
        for categories, shares in zip(columns, shown, strict=True):
            cells += [shares[i], _interval(categories[i].interval), f"{categories[i].us_per_query:.2f}"]
        table.append([category.name, *cells, found.moves[category.name]])
    totals = [["100.00", "", f"{sum(c.us_per_query for c in categories):.2f}"] for categories in columns]
    table.append(["all", *(cell for total in totals for cell in total), ""])
    samples = ", ".join(f"{step} n={samples:,}" for step, samples in found.samples.items())
    return (
        f"Categories, {view} view, {users} user{'s' * (users != 1)} ({samples})\n" + aligned(table, width)
        + "\n  %: of the weight of the perf windows; 95 %: over their seconds, which samples of one second share;"
        + "\n  us/query: that share of the CPU per query of the plain windows"
    )  # fmt: skip


def _interval(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.1f}..{interval.high:.1f}"


def render_orders(orders: Sequence[tuple[str, Judged]]) -> str:
    """Do the shares of the owner view move as published?"""
    lines = [f"  {what}: {one.why}" for what, one in orders]
    title = "Orders of the published table, from the first step to the last (share of weight, 95 % intervals)"
    return "\n".join([title, *lines]) if lines else ""
