"""Where the CPU of a query goes: the owner view, the leaf view, and one against the other."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.categories import Categories
from ground.text.titles import title_of
from viz.flame.palette import hue_class
from viz.page.rendering import absent, render, section_markup, table_markup
from viz.page.run_view import RunView
from viz.printable import printable
from viz.table import Table
from viz.tables.categories import categories_section, categories_table, cost_words
from viz.weights import exact_weight, percentages


def owner(view: RunView, hues: Sequence[int]) -> Markup:
    """Table of the owner view."""
    if view.owner is None or not view.owner.rows:
        return absent("This run has no categories.")
    more = f"Rules checked with {', '.join(view.owner.rules_checked)}. Click a row to see only its stacks."
    return _view(view, view.owner, "owner", f"{cost_words(view.record, view.owner)} {more}", hues)


def leaf(view: RunView) -> Markup:
    """Table of the leaf view; categories without weight are named below."""
    if view.leaf is None:
        return absent("No leaf view: the stacks could not be sorted by what ran at the bottom.")
    return _view(view, view.leaf, "leaf", "")


def _view(
    view: RunView,
    found: Categories,
    kind: str,
    more: str,
    hues: Sequence[int] | None = None,
) -> Markup:
    """kind: owner or leaf, the two views that the flame graph knows: a row of one filters it"""
    places = {printable(title_of(row.name)): place for place, row in enumerate(found.rows)}
    classes = None if hues is None else {row.name: hue_class(hue) for row, hue in zip(found.rows, hues, strict=True)}

    def pick(name: str) -> str:
        place = places.get(name)
        hue = None if hues is None or place is None else hues[place]
        return name if place is None else render("pick.html", kind=kind, place=place, hue=hue, name=name)

    unit = view.record.profile.unit if view.record.profile else "weight"
    title = "CPU by category" if kind == "owner" else f"CPU by {kind}"
    title += f": {found.description}" if found.description else ""
    cores = view.record.metrics.get("cores")
    table = categories_table(found, unit, title, cores=cores, hues=classes, more=more)
    return table_markup(table, pick, saved=f"{kind}.svg")


def further(view: RunView) -> Markup:
    """The views beside owner and leaf, and the kinds of operation that are counted, folded up."""
    made = Markup("")
    for name, found in view.further.items():
        made += render("further.html", name=name, content=section_markup(categories_section(view.record, found)))
    return made


def operations(view: RunView) -> Markup:
    """The CPU by kind of operation; and a table for each kind that is counted, folded up."""
    whole, kinds = (section := view.sections.get("operations", ()))[:1], section[1:]
    made = section_markup(whole)
    for kind in kinds:
        assert isinstance(kind, Table)
        made += render("further.html", name=kind.name.replace("operations_", "one "), content=section_markup([kind]))
    return made


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
    for leaf_place, row in sorted(enumerate(view.leaf.rows), key=lambda entry: -entry[1].weight):
        cells = []
        for owner_place, column in owners:
            weight = weights.get((column.name, row.name), 0)
            cell = {
                "heat": f"{(weight / most) ** 0.5:.3f}",  # by area: a cell of 1 % beside one of 50 % can be seen
                "owner": owner_place,
                "leaf": leaf_place,
                "title": f"{title_of(column.name)}, {title_of(row.name)}: {exact_weight(weight, unit)}",
                "share": f"{100 * weight / total:.2f}",
            }
            cells.append(cell if weight else None)
        rows.append({"name": title_of(row.name), "cells": cells, "sum": leaf_shares[leaf_place]})
    legend = (
        "What ran at the bottom (rows), on whose behalf (columns). Colour by the square root of the share. "
        "Cells are rounded each; the sums are rounded so that they add up to 100. A cell filters the flame graph."
    )
    sums = [owner_shares[place] for place, _ in owners]
    return render("matrix.html", legend=legend, owners=[title_of(row.name) for _, row in owners], rows=rows, sums=sums)
