"""Where the CPU of a query goes: the owner view, the leaf view, and one against the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from ground.results.categories import Categories, Category
from ground.results.metrics import MODE_METRIC
from viz.flame.palette import hue_class
from viz.page.rendering import absent, render
from viz.page.run_view import RunView
from viz.svg.share_bar import share_bar
from viz.weights import exact_weight, percentages

_OVER_SECONDS = (
    "95 %: interval of the share by bootstrap over the seconds of the window; "
    "it does not include what changes from run to run."
)
_INTERVAL = (
    "95 %: interval of Wilson from the number of samples, taken as independent draws of equal weight; "
    "it does not include what changes from run to run."
)
_Z = 1.959963984540054  # of 95 %, two-sided
_STEAL = " steal: between which the share must be, whichever samples hold time that the hypervisor took."


def owner(view: RunView, hues: Sequence[int]) -> Markup:
    """Table of the owner view."""
    if view.owner is None or not view.owner.rows:
        return absent("No owner view: this run has no categories.")
    if view.record.target is not None and view.us_per_query is None:
        cost = (
            "There is no us per query: nothing counts the queries of this target (--count). cores: share of weight in "
            "the perf window x cores of the plain windows."
        )
    elif view.us_per_query is None or view.record.profile is None:
        cost = "Costs are not shown: the plain windows have no CPU per query."
    else:
        metric = MODE_METRIC[view.record.profile.mode]
        cost = f"us/query and us/read: share of weight in the perf window x {metric} of the plain windows."
    rule = view.owner.description
    if view.record.target is None and view.owner.view == "owner":
        rule = "the first known frame from the root owns all below it"
    legend = (
        f"{view.owner.view.capitalize()} view: {rule}. Rules checked with "
        f"{', '.join(view.owner.rules_checked)}. {cost} {_interval_legend(view.owner)} Click a row to see only its "
        "stacks."
    )
    *named, other = enumerate(view.owner.rows)
    places = [*sorted((entry for entry in named if entry[1].weight), key=lambda entry: -entry[1].weight), other]
    return _view(view, view.owner, "owner", legend + _without(view.owner), places, hues)


def _without(categories: Categories) -> str:
    empty = [row.name for row in categories.rows if not row.weight]
    return f" Without weight: {', '.join(empty)}." if empty else ""


def leaf(view: RunView) -> Markup:
    """Table of the leaf view; categories without weight are named below."""
    if view.leaf is None:
        return absent("No leaf view: the stacks could not be sorted by what ran at the bottom.")
    told = "Leaf view: what the CPU was doing at the bottom of the stack, heaviest first."
    legend = f"{told} {_interval_legend(view.leaf)}{_without(view.leaf)}"
    return _view(view, view.leaf, "leaf", legend, _heaviest_first(view.leaf))


def further(view: RunView) -> Markup:
    """The views beside owner and leaf, folded up: each as the leaf view is."""
    made = Markup("")
    for name, categories in view.further.items():
        legend = f"{name} view: {categories.description}, heaviest first. {_interval_legend(categories)}"
        content = _view(view, categories, name, legend, _heaviest_first(categories))
        made += render("further.html", name=name, content=content)
    return made


def operations(view: RunView) -> Markup:
    """A table for each kind of operation that is counted, folded up."""
    made = Markup("")
    for one in view.operations:
        if one.categories is not None and one.categories.total_weight:
            legend = (
                f"{one.label}, by the {one.categories.view} view: {one.per_second:,.0f} a second, {one.us:.2f} us of "
                f"CPU each. us/query: of one of them. {_interval_legend(one.categories)}"
            )
            content = _view(view, one.categories, one.name, legend, _heaviest_first(one.categories))
            made += render("further.html", name=f"one {one.name}", content=content)
    return made


def _heaviest_first(categories: Categories) -> list[tuple[int, Category]]:
    """Place and row of those with weight."""
    places = [(place, row) for place, row in enumerate(categories.rows) if row.weight]
    return sorted(places, key=lambda entry: -entry[1].weight)


def _view(
    view: RunView,
    categories: Categories,
    kind: str,
    legend: str,
    places: Sequence[tuple[int, Category]],
    hues: Sequence[int] | None = None,
) -> Markup:
    shares = percentages([row.weight for row in categories.rows])
    counted = [row.samples for row in categories.rows]
    n = sum(count or 0 for count in counted) if all(count is not None for count in counted) else 0
    # For a target whose queries are not counted, cores are shown instead.
    uncounted = view.record.target is not None and all(row.us_per_query is None for row in categories.rows)
    cores = view.record.metrics.get("cores") if uncounted else None
    measured = []
    for place, row in places:
        share = row.weight / categories.total_weight if categories.total_weight else 0.0
        measured.append((place, row, share, *_interval(row, share, n)))
    most = max((high if n else share for _, _, share, _, high in measured), default=1.0)
    rows: list[dict[str, Any]] = []
    for place, row, share, low, high in measured:
        hue = None if hues is None else hues[place]
        bar = share_bar(share, (low, high) if n else None, most, "h0" if hue is None else hue_class(hue))
        cost = share * cores if cores is not None else row.us_per_query
        whole = cost / share if cost is not None and share else None
        figures = [
            f"{100 * low:.2f} \u2013 {100 * high:.2f}" if n else "-",
            _us(cost),
            f"{_us(low * whole)} \u2013 {_us(high * whole)}" if n and whole is not None else "-",
            _us(row.us_per_read),
            "-" if row.bounds is None else "{:.2f} \u2013 {:.2f}".format(*row.bounds),
            "-" if row.samples is None else f"{row.samples:,}",
        ]
        rows.append(
            {"place": place, "name": row.name, "label": row.label, "hue": hue, "bar": bar, "share": shares[place],
             "figures": figures}
        )  # fmt: skip
    per_query, per_read = (
        _sum(figures) for figures in zip(*((r.us_per_query, r.us_per_read) for r in categories.rows), strict=True)
    )
    sums = ["", _us(per_query if cores is None else cores), "", _us(per_read), "", f"{n:,}" if n else "-"]
    heads = ["95 %", "us/query" if cores is None else "cores", "95 %", "us/read", "steal", "n"]
    # Columns in which nothing was measured are left out.
    kept = [place for place in range(len(heads)) if any(row["figures"][place] != "-" for row in rows)]
    for shown in rows:
        shown["figures"] = [shown["figures"][place] for place in kept]
    unit = view.record.profile.unit if view.record.profile else "weight"
    return render(
        "categories.html", kind=kind, legend=legend, rows=rows,
        heads=[categories.view if kind == "owner" else kind, f"% of {unit}", *(heads[i] for i in kept)],
        sums=["100.00" if categories.total_weight else "0.00", *(sums[i] for i in kept)],
        published=kind == categories.view == "owner" and view.record.target is None,
    )  # fmt: skip


def _sum(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return math.fsum(known) if known else None


def _interval(row: Category, share: float, n: int) -> tuple[float, float]:
    """Of the share: over the seconds of the window where the run has them, by the number of samples otherwise."""
    if row.interval is None:
        return wilson(share, n)
    return row.interval.low / 100, row.interval.high / 100


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of Wilson around `share` (0 to 1) seen in `n` samples, taken as independent draws;
    (0, 1) where there are none."""
    if n <= 0:
        return 0.0, 1.0
    share = min(max(share, 0.0), 1.0)
    square = _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def _interval_legend(categories: Categories) -> str:
    told = _OVER_SECONDS if any(row.interval is not None for row in categories.rows) else _INTERVAL
    return told + (_STEAL if any(row.bounds is not None for row in categories.rows) else "")


def _us(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.3f}"


def matrix(view: RunView) -> Markup:
    """Owner against leaf as a heat map of shares; each cell filters the flame graph."""
    if view.owner is None or view.leaf is None or not view.leaf_of:
        return absent("No matrix: it needs both views of every stack.")
    weights: dict[tuple[str, str], int] = {}
    for stack in view.stacks:
        key = (stack.category, view.leaf_of.get(stack.frames, "other"))
        weights[key] = weights.get(key, 0) + stack.weight
    total = sum(weights.values())
    if not total:
        return absent("No matrix: there is no weight.")
    owners = [(place, row) for place, row in enumerate(view.owner.rows) if row.weight]
    unit = view.record.profile.unit if view.record.profile else ""
    most = max(weights.values())
    leaf_shares = percentages([row.weight for row in view.leaf.rows])
    owner_shares = percentages([row.weight for row in view.owner.rows])
    rows = []
    for leaf_place, row in _heaviest_first(view.leaf):
        cells = []
        for owner_place, column in owners:
            weight = weights.get((column.name, row.name), 0)
            cell = {
                "heat": f"{(weight / most) ** 0.5:.3f}",  # by area: a cell of 1 % beside one of 50 % can be seen
                "owner": owner_place,
                "leaf": leaf_place,
                "title": f"{column.name}, {row.name}: {exact_weight(weight, unit)}",
                "share": f"{100 * weight / total:.2f}",
            }
            cells.append(cell if weight else None)
        rows.append({"name": row.name, "cells": cells, "sum": leaf_shares[leaf_place]})
    legend = (
        "What ran at the bottom (rows), on whose behalf (columns). Colour by the square root of the share. "
        "Cells are rounded each; the sums are rounded so that they add up to 100. A cell filters the flame graph."
    )
    sums = [owner_shares[place] for place, _ in owners]
    return render("matrix.html", legend=legend, owners=[row.name for _, row in owners], rows=rows, sums=sums)
