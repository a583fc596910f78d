"""CPU us per query by parts, and accounts: cell beside cell or build against base, for terminal and page alike."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ground.results.differences import BudgetRow
from ground.results.profile import OTHER
from ground.settings import Setting
from viz.table import Table, of_cells


@dataclass(frozen=True)
class Stacked:
    """CPU us per query of several builds, each by its parts, to be drawn one part above the other.

    parts: the order of all that any picture of the page has, so that each has its colour; bars: by build, then by part
    """

    caption: str
    parts: Sequence[str]
    bars: Mapping[str, Mapping[str, float]]


def parts_in_order(costs: Iterable[Mapping[str, float]]) -> list[str]:
    """The parts by the largest cost of each, the largest first; `OTHER` last."""
    largest: dict[str, float] = {}
    for one in costs:
        for name, us in one.items():
            largest[name] = max(largest.get(name, 0.0), us)
    return sorted(largest, key=lambda name: (name == OTHER, -largest[name], name))


def beside(caption: str, cells: Mapping[str, Mapping[str, float]], unit: str = "us/query") -> Table[Sequence[str]]:
    """cells: by cell, then by part; a part that is 0 in all of them is left out"""
    parts = dict.fromkeys(part for figures in cells.values() for part in figures)
    rows = [
        [part, *(f"{figures[part]:.3f}" if part in figures else "-" for figures in cells.values())]
        for part in parts
        if any(figures.get(part) for figures in cells.values())
    ]
    return of_cells(caption, ("part", *cells), rows, unit)


def against_base(
    caption: str,
    base: str,
    build: str,
    rows: Sequence[BudgetRow],
    sessions: int,
    moved: Mapping[str, str],
    lacks: Mapping[str, Container[str]],
    unit: str = "us/query",
) -> Table[Sequence[str]]:
    """sessions: rounds that the intervals rest on; of one alone nothing is called a difference. moved: words by row

    lacks: rows that each of both cannot have; what the other one alone has is no change
    """
    shown = []
    for row in rows:
        if not row.base and not row.arm:
            continue
        sides = [
            "-" if row.name in lacks.get(name, ()) else f"{us:.3f}" for name, us in ((base, row.base), (build, row.arm))
        ]
        change = f"{row.change:+.3f}"
        interval, said = f"[{row.low:+.3f}, {row.high:+.3f}]", "significant" if row.seen else "not significant"
        if sessions < 2:
            interval, said = "", "?"
        said = moved.get(row.name, said)
        if "-" in sides:
            change, interval, said = "-", "", "no such row"
        shown.append([row.name, *sides, change, interval, said])
    words = [
        f"{unit}; intervals of the change hold for all rows at once with 95 %, over {sessions} rounds"
        if sessions > 1
        else f"{unit}; ?: one round cannot show what differs from run to run ({Setting.REPEATS.to(3)} does)"
    ]
    if moved:
        words.append(
            "moved: its anchor is inlined in a build that does not name inlined functions (-g1 does), so its time is "
            "in other rows; moved?: may be no more than that"
        )
    return of_cells(caption, ("part", base, build, "change", "interval", ""), shown, ". ".join(words))
