"""The category tables of an experiment, step beside step, and whether the shares move as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.io_efficiency import Row, judged_orders, movement
from viz.terminal.columns import aligned
from viz.weights import percentages

__all__ = ("render_categories", "render_orders")


def render_categories(of_users: Sequence[Row], view: str, width: int | None = None) -> str:
    """A view of all steps with one number of users: share with its interval, and us per query."""
    columns = [(row, row.categories(view)) for row in of_users]
    table = [[view, *(head for row in of_users for head in (f"{row.step} %", "95 %", "us/query")), "first to last"]]
    shown = [percentages([category.weight for category in categories]) for _, categories in columns]
    for i, category in enumerate(columns[0][1]):
        if view != "owner" and not any(categories[i].weight for _, categories in columns):
            continue
        cells = []
        for (_, categories), shares in zip(columns, shown, strict=True):
            cells += [shares[i], _interval(categories[i].draws), f"{categories[i].us_per_query:.2f}"]
        table.append([category.name, *cells, movement(columns[0][1][i], columns[-1][1][i])])
    totals = [["100.00", "", f"{sum(c.us_per_query for c in categories):.2f}"] for _, categories in columns]
    table.append(["all", *(cell for total in totals for cell in total), ""])
    samples = ", ".join(f"{row.step} n={row.samples():,}" for row in of_users)
    users = of_users[0].users
    return (
        f"Categories, {view} view, {users} user{'s' * (users != 1)} ({samples})\n" + aligned(table, width)
        + "\n  %: of the weight of the perf windows; 95 %: over their seconds, which samples of one second share;"
        + "\n  us/query: that share of the CPU per query of the plain windows"
    )  # fmt: skip


def _interval(draws: Draws | None) -> str:
    interval = draws.interval() if draws else None
    return "-" if interval is None else f"{interval.low:.1f}..{interval.high:.1f}"


def render_orders(found: Sequence[Row], orders: Mapping[str, str]) -> str:
    """Do the shares of the owner view move as published (orders: `falls` or `rises`, by category)?"""
    lines = [f"  {what}: {one.why}" for what, one in judged_orders(found, orders)]
    title = "Orders of the published table, from the first step to the last (share of weight, 95 % intervals)"
    return "\n".join([title, *lines]) if lines else ""
