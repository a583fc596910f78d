"""Several runs side by side: what differs between them first, then their figures against those of the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ground.results.accounts import ACCOUNTS, ALL, Accounts
from ground.results.categories import Categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.ladder import Ladder
from ground.results.metrics import LEGEND
from ground.results.verdicts import Apart
from ground.text.titles import title_of, with_name
from viz.figures import HEADLINE, account_digits, beside_base, interval_text
from viz.page.frames import frames_compared
from viz.page.ladder import ladders_compared
from viz.page.rendering import render, table
from viz.page.run_view import RunView
from viz.svg.ladder import LadderRow
from viz.weights import percentages


def _ladder(view: RunView) -> LadderRow | None:
    found = view.observed.of(Files.LADDER, Ladder)
    return None if found is None else LadderRow(view.name, found, view.observed.rx_lat_us)


def comparison(views: Sequence[RunView], apart: Apart) -> Markup:
    """The part of the page above the runs."""
    names = [f"{view.name}{' (base)' if not index else ''}" for index, view in enumerate(views)]
    rows, found, barred = apart.differing, apart.comparability, apart.barriers
    ladders = [_ladder(view) for view in views]
    tables = [_headline(views, names, not barred), ladders_compared(ladders, names, not barred)]
    tables += _accounts(views, names, not barred)
    allowed = {"owner": (not barred and not found.heading, not barred), "leaf": (not barred and not found.leaf,) * 2}
    tables += [_categories(views, names, kind, get, allowed[kind], found.heading) for kind, get in _KINDS]
    # Rules of the user's own: what they sort by is not known, so they are as leaf categories are.
    others = dict.fromkeys(name for view in views for name in view.further)
    tables += [_categories(views, names, kind, _further(kind), allowed["leaf"], "") for kind in others]
    return render(
        "comparison.html",
        barred=barred,
        differing=table("What differs", ["what", *names], [[name, *values] for name, values in rows], "words")
        if rows
        else "",
        failed=[view.name for view in views if any(c.verdict is Verdict.FAILED for c in view.record.checks)],
        tables=tables,
        graphs=[(view.name, frames_compared(view.frames)) for view in views if view.frames and not barred],
        apart="" if barred else "; ".join(found.frames),
    )


_KINDS: tuple[tuple[str, Callable[[RunView], Categories | None]], ...] = (
    ("owner", lambda view: view.owner),
    ("leaf", lambda view: view.leaf),
)


def _further(name: str) -> Callable[[RunView], Categories | None]:
    return lambda view: view.further.get(name)


# Runs that have an account, for there to be a table.
_FEWEST = 2
# Of the largest run's whole: rows below it in every run are left out.
_SMALL = 0.01
_TO = " \u2013 "
_SCATTER = (
    "95 %: interval of a run's figure by how its rounds differ; it does not include what changes from run to run."
)
_POINTS = "\u0394 in points. Shares add up to 100: one row's gain is others' loss."
_ONE_RUN = (
    "Differences are between single runs: without repeats of each, a small one says nothing. "
    "Columns with \u0394 are against the base."
)


def _headline(views: Sequence[RunView], names: Sequence[str], compared: bool) -> Markup:
    rows = []
    scattered = any(view.record.intervals for view in views)
    for name, form in HEADLINE:
        values = [view.record.metrics.get(name) for view in views]
        if all(value is None for value in values):
            continue
        row = [with_name(name)]
        for index, value in enumerate(values):
            row.append("-" if value is None else form.format(value))
            if scattered:
                found = views[index].record.intervals.get(name)
                row.append("-" if found is None else interval_text(form, found, _TO))
            if index and compared:
                base = values[0]
                row.append("-" if value is None or not base else f"{100 * (value / base - 1):+.1f} %")
        rows.append([*row, LEGEND[name]])
    if not rows:
        return Markup("")
    heads = [*_heads("figure", names, compared, "95 %" if scattered else ""), "what it is"]
    legend = " ".join(words for words, told in ((_SCATTER, scattered), (_ONE_RUN, compared)) if told)
    return table("Baseline windows", heads, rows, "numbers noted", legend)


def _accounts(views: Sequence[RunView], names: Sequence[str], compared: bool) -> list[Markup]:
    """A table of each account that two runs have; the ladder has one of its own."""
    read = [view.observed.of(Files.ACCOUNTS, Accounts) for view in views]
    found = [{one.name: one for one in of.accounts} if of is not None else {} for of in read]
    tables = []
    for name, kind in ACCOUNTS.items():
        by_run = [one[name].by_work() if name in one else None for one in found]
        if name == "ladder" or sum(values is not None for values in by_run) < _FEWEST:
            continue
        rows = dict.fromkeys(row for values in by_run if values is not None for row in values)
        if len(rows) == 2:
            # Its one row is all of it.
            rows.popitem()
        largest = max(values[ALL] for values in by_run if values is not None)
        digits = account_digits(largest)
        shown, change = f"{{:,.{digits}f}}".format, f"{{:+,.{digits}f}}".format
        cells = []
        for row in rows:
            values = [None if of is None else of.get(row, 0.0) for of in by_run]
            if max(value or 0.0 for value in values) >= _SMALL * largest:
                cells.append([row, *beside_base(values, shown, change, compared)])
        legend = f"{kind.unit}; rows below {100 * _SMALL:.0f} % are left out." + f" {_ONE_RUN}" * compared
        tables.append(table(kind.title, _heads(kind.unit, names, compared), cells, legend=legend))
    return tables


def _heads(first: str, names: Sequence[str], compared: bool, scatter: str = "") -> list[str]:
    heads = [first]
    for index, name in enumerate(names):
        heads += [name, scatter] if scatter else [name]
        if index and compared:
            heads.append("\u0394")
    return heads


def _categories(
    views: Sequence[RunView],
    names: Sequence[str],
    kind: str,
    get: Callable[[RunView], Categories | None],
    allowed: tuple[bool, bool],
    heading: str,
) -> Markup:
    """allowed: to compare shares, and costs; heading: over costs that several instruments measured"""
    found = [get(view) for view in views]
    if all(one is None for one in found):
        return Markup("")
    order = list(dict.fromkeys(row.name for one in found if one is not None for row in one.rows))
    of_runs = [{row.name: row for row in one.rows} if one is not None and one.total_weight else {} for one in found]
    # printed as the tables of each run print them: digits that add up to 100
    printed = [dict(zip(of, percentages([row.weight for row in of.values()]), strict=True)) for of in of_runs]
    parts = []
    told = "CPU by category" if kind == "owner" else f"CPU by {kind}"
    costs = f"{told}: us per query" + (f" ({heading})" if heading and allowed[True] else "")
    for title, costed in ((f"{told}: % of weight", False), (costs, True)):
        compared = allowed[costed]
        rows = []
        for name in order:
            values: list[float | None] = []
            for of in of_runs:
                category = of.get(name)
                values.append(None if category is None else category.us_per_query if costed else category.share)
            if not any(values):
                continue
            row = [title_of(name)]
            for index, value in enumerate(values):
                row.append("-" if value is None else f"{value:.3f}" if costed else printed[index][name])
                if index and compared:
                    base = values[0]
                    row.append("-" if value is None or base is None else f"{value - base:+.3f}" if costed
                               else f"{value - base:+.2f}")  # fmt: skip
            rows.append(row)
        if rows:
            legend = "\u0394 in us per query." if costed else _POINTS
            parts.append(table(title, _heads("category", names, compared), rows, legend=legend if compared else ""))
    return Markup("").join(parts)
