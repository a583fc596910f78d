"""The category tables of an experiment, step beside step, and whether the shares move as published."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ioflame.efficiency import CategoryShare, Row
from ioflame.stats import Draws
from viz.columns import aligned
from viz.scales import percentages

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
        table.append([category.name, *cells, _movement(columns[0][1][i], columns[-1][1][i])])
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


def _movement(first: CategoryShare, last: CategoryShare) -> str:
    """`falls`, `rises`, `none seen`, or `-` where there are no intervals to tell by."""
    a, b = (None if c.draws is None else c.draws.interval() for c in (first, last))
    if a is None or b is None:
        return "-"
    if a.overlaps(b):
        return "none seen"
    return "falls" if b.estimate < a.estimate else "rises"


# What the source document's table shows from its first to its last step.
_PUBLISHED_ORDERS = (("bloom", "falls"), ("libc+k", "rises"))
_WHY = {
    "none seen": "no difference seen: the intervals overlap; more REPEATS or a larger DURATION narrow them",
    "-": "too few seconds to tell: a larger DURATION or more REPEATS",
}


def render_orders(found: Sequence[Row]) -> str:
    """Do the shares of the owner view move as published?"""
    lines = []
    for users, group in itertools.groupby(found, lambda row: row.users):
        of_users = list(group)
        first, last = ({c.name: c for c in row.categories("owner")} for row in (of_users[0], of_users[-1]))
        for name, published in _PUBLISHED_ORDERS:
            a, b = first.get(name), last.get(name)
            if a is None or b is None or len(of_users) < 2:
                continue
            seen = _movement(a, b)
            verdict = "holds" if seen == published else _WHY.get(seen, f"DOES NOT HOLD: it {seen}")
            lines.append(
                f"  {users} user{'s' * (users != 1)}: {name} {published}: {a.share:.2f} -> {b.share:.2f} %: {verdict}"
            )
    title = "Orders of the published table, from the first step to the last (share of weight, 95 % intervals)"
    return "\n".join([title, *lines]) if lines else ""
