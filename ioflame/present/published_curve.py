"""Versions measured here beside what was published of them: what agrees, what differs, and what cannot be decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ground.results.differences import Cell, RelativeTable
from viz.table import Table, of_cells
from workloads.curves import Curve

# A published change below this is within what one run of a test repeats to.
_SMALL = 0.02
_NOT_PUBLISHED = "not published"
_OUTCOMES = ("agrees", "differs", "cannot be decided", _NOT_PUBLISHED)


class _Row(NamedTuple):
    """A ratio that was measured; published, of: of this version, or of its neighbours, in words"""

    test: str
    build: str
    cell: Cell
    published: str
    of: str
    outcome: str


def beside_published(
    curve: Curve | None, tables: Sequence[tuple[str, RelativeTable]], versions: Mapping[str, str]
) -> list[Table[Sequence[str]]]:
    """Two tables for each group of cells that something was published of: a line an outcome, and every ratio.

    versions: of the builds, by their names
    """
    found: list[Table[Sequence[str]]] = []
    if curve is None:
        return found
    for group, table in tables:
        rows = list(_rows(curve, group, table, versions))
        if not rows:
            continue
        source = f"published: {curve.source}"
        caption = f"{group}: as published, and on this host"
        found.append(of_cells(caption, ("test", *_OUTCOMES), _summary(rows), source))
        heads = ("test", "version", f"over {table.base}", "interval", "published", "of", "")
        every = [[row.test, row.build, f"{row.cell.ratio:.2f}", _interval(row.cell), *row[3:]] for row in rows]
        legend = (
            f"{source}; both are rates over that of {table.base}. agrees: the interval includes the published ratio "
            "and is above 1 or below 1 as that is, or the published ratio is within 2 % of 1 and the interval narrower "
            "than 8 %; differs: the interval excludes the published ratio by more than 2 %; cannot be decided: the "
            f"interval includes the published ratio and 1, or one round has no interval; {_NOT_PUBLISHED}: beside it "
            "the versions before and after"
        )
        found.append(of_cells(f"{group}: beside the published relative rates", heads, every, legend))
    return found


def _rows(curve: Curve, group: str, table: RelativeTable, versions: Mapping[str, str]) -> Iterator[_Row]:
    for test in table.rows:
        of_base = curve.at(group, test, versions.get(table.base, table.base))
        for build in table.columns if of_base is not None else ():
            cell = table.cells[test].get(build)
            if build == table.base or cell is None or of_base is None:
                continue
            version = versions.get(build, build)
            known = curve.at(group, test, version)
            if known is not None:
                ratio = known[1] / of_base[1]
                yield _Row(test, build, cell, f"{ratio:.2f}", known[0], judged_change(cell, ratio))
            else:
                near = curve.around(group, test, version)
                ratios = ", ".join(f"{value / of_base[1]:.2f}" for _, value in near)
                yield _Row(test, build, cell, ratios, ", ".join(of for of, _ in near), _NOT_PUBLISHED)


def _summary(rows: Sequence[_Row]) -> list[list[str]]:
    """A line a test: which of its versions had which outcome; and how many of all."""
    found = []
    for test in dict.fromkeys(row.test for row in rows):
        builds = [
            ", ".join(row.build for row in rows if row.test == test and row.outcome == outcome) for outcome in _OUTCOMES
        ]
        found.append([test, *builds])
    counts = Counter(row.outcome for row in rows)
    return [*found, [f"all {len(rows)}", *(str(counts[outcome]) for outcome in _OUTCOMES)]]


def _interval(cell: Cell) -> str:
    return "" if cell.low is None or cell.high is None else f"[{cell.low:.2f}, {cell.high:.2f}]"


def published_ratios(
    curve: Curve | None, group: str, table: RelativeTable, versions: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """By test and build, over the published figure of the base: of those builds whose version was published."""
    found: dict[str, dict[str, float]] = {}
    if curve is None:
        return found
    for test in table.rows:
        known = {build: curve.at(group, test, versions.get(build, build)) for build in table.columns}
        base = known.pop(table.base, None)
        ratios = {build: one[1] / base[1] for build, one in known.items() if one is not None and base is not None}
        if ratios:
            found[test] = ratios
    return found


def judged_change(measured: Cell, published: float) -> str:
    """`agrees`, `differs` or `cannot be decided`, of a ratio with its interval and the published one."""
    low, high = measured.low, measured.high
    if low is None or high is None:
        return "cannot be decided"
    # What the published run repeats to belongs to its figure.
    if not low - _SMALL <= published <= high + _SMALL:
        return "differs"
    seen = (low > 1 and published > 1) or (high < 1 and published < 1)
    unchanged = abs(published - 1) <= _SMALL and high - low <= 4 * _SMALL
    return "agrees" if seen or unchanged else "cannot be decided"
