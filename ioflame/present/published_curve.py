"""Versions measured here beside what was published of them: what agrees, what does not, and what cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ground.results.differences import Cell, RelativeTable
from viz.breakdowns import Breakdown
from workloads.curves import Curve

__all__ = ("beside_published", "judged_change")

# A published change below this is within what one run of a test repeats to.
_SMALL = 0.02


def beside_published(
    curve: Curve | None, tables: Sequence[tuple[str, RelativeTable]], versions: Mapping[str, str]
) -> list[Breakdown]:
    """A table for each group of cells that something was published of. versions: of the builds, by their names"""
    found: list[Breakdown] = []
    if curve is None:
        return found
    for cell, table in tables:
        rows = [
            row
            for step in table.rows
            for build in table.columns
            if build != table.base and build in table.cells.get(step, {})
            for row in _rows(curve, cell, step, build, table, versions)
        ]
        if rows:
            heads = ("test", "version", f"over {table.base}", "interval", "published", "of", "")
            legend = (
                f"published: {curve.source}; both are rates over that of {table.base}. agrees: the interval holds the "
                "published change and no change is outside of it, or both are no change; differs: the published value "
                "is outside of the interval; cannot be told: the interval holds both, or one round has no interval"
            )
            found.append(Breakdown(f"{cell}: beside the published relative rates", heads, rows, legend))
    return found


def _rows(
    curve: Curve, cell: str, step: str, build: str, table: RelativeTable, versions: Mapping[str, str]
) -> list[list[str]]:
    of_base, of_build = (curve.at(cell, step, versions.get(name, name)) for name in (table.base, build))
    if of_base is None or of_build is None:
        return []
    one, published = table.cells[step][build], of_build[1] / of_base[1]
    interval = "" if one.low is None or one.high is None else f"[{one.low:.2f}, {one.high:.2f}]"
    return [[step, build, f"{one.ratio:.2f}", interval, f"{published:.2f}", of_build[0], judged_change(one, published)]]


def judged_change(measured: Cell, published: float) -> str:
    """`agrees`, `differs` or `cannot be told`, of a ratio with its interval and the published one."""
    if measured.low is None or measured.high is None:
        return "cannot be told"
    if not measured.low <= published <= measured.high:
        # Both are no change, or the same within what the published run repeats to.
        near = measured.low - _SMALL <= published <= measured.high + _SMALL
        return "agrees" if near else "differs"
    small = abs(published - 1) <= _SMALL
    narrow = measured.high - measured.low <= 4 * _SMALL
    sees = measured.low > 1 or measured.high < 1
    return "agrees" if sees or (small and narrow) else "cannot be told"
