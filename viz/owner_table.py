"""Tables for the terminal: pure functions from data to text, never wider than the given width.

No colour codes and no printing here: the same text goes to a terminal, a file and a log.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.categories import Category
from ground.text.columns import cells, pad
from viz.columns import bar, cut
from viz.printable import printable
from viz.weights import percentages

LEAST_WIDTH = 20  # below this no row keeps both its name and its figure
_BAR_LEAST, _BAR_MOST = 8, 40
_NAME_LEAST = 6
_LABEL_LEAST = 16
_NOT_MEASURED = "-"


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: list[str]

    @property
    def width(self) -> int:
        return max(cells(text) for text in (self.head, *self.cells))


def owner_table(
    rows: Sequence[Category],
    *,
    unit: str,
    width: int,
    legend: bool = True,
    unicode: bool = True,
    view: str = "owner",
    cores: float | None = None,
    labels: bool = False,
) -> str:
    """The categories of a view with their shares, which add up to exactly 100.00 as printed.

    view:     the head of the names
    unit:     of the weights that the shares are of (`ns`, `cycles`): the header names it
    legend:   explain each row below the table
    labels:   say at the end of each row what it is, where there is room
    unicode:  bars of blocks; False gives plain ASCII
    cores:    CPUs in use by all rows together, to be shared out among them; None where that is not known

    What was not measured of a row is printed as `-`. Where the width is short the bars go first, then n, the intervals,
    us/read and us/query; a figure is never cut.
    """
    _check_width(width)
    if not rows:
        raise ValueError("an owner table needs a row")
    total = sum(row.share for row in rows) / 100
    if abs(total - 1) > 1e-6:
        raise ValueError(f"the shares of the owner table add up to {total:g}, not to 1")

    view = _plain(view)
    names = [*(_plain(row.name) for row in rows), "all"]
    weights = [row.weight for row in rows]
    shares = [*percentages(weights), "100.00"]
    columns = [_Column(f"% of {_plain(unit)}", shares), *_figures(rows, cores)]

    longest = max(cells(name) for name in (*names, view))
    least = min(longest, _NAME_LEAST)
    while len(columns) > 1 and least + sum(column.width + 2 for column in columns) > width:
        columns.pop()
    if least + columns[0].width + 2 > width:  # a long unit; the figures need less
        columns = [_Column("%", shares)]
    taken = sum(column.width + 2 for column in columns)
    name_width = min(longest, width - taken)
    room = width - name_width - taken - 2
    labels = labels and room >= _BAR_LEAST + _LABEL_LEAST
    bar_room = _BAR_LEAST if labels else min(_BAR_MOST, room)

    top = max(weights)
    lines = [_row(view, [column.head for column in columns], columns, name_width)]
    for index, name in enumerate(names):
        if index == len(rows):
            lines.append(("\u2500" if unicode else "-") * (name_width + taken))
        line = _row(name, [column.cells[index] for column in columns], columns, name_width)
        if bar_room >= _BAR_LEAST and index < len(rows) and top > 0:
            line += "  " + bar(weights[index] / top, bar_room, unicode)
            told = cut(_plain(rows[index].label), room - bar_room - 2) if labels else ""
            line = pad(line, width - room + bar_room) + "  " + told
        lines.append(line)
    if legend:
        lines += ["", *_legend(rows, columns, unit, width, name_width)]
    return _joined(lines)


def _figures(rows: Sequence[Category], cores: float | None) -> list[_Column]:
    """The columns beside the share, of what was measured of some row, with their sums."""
    columns = []
    for head, figures in (
        ("cores", [None if cores is None else row.share / 100 * cores for row in rows]),
        ("us/query", [row.us_per_query for row in rows]),
        ("us/read", [row.us_per_read for row in rows]),
    ):
        if any(figure is not None for figure in figures):
            columns.append(_Column(head, [*map(_us, figures), _us(_sum(figures))]))
    intervals = [None if row.interval is None else (row.interval.low, row.interval.high) for row in rows]
    for head, ends in (("95 %", intervals), ("steal", [row.bounds for row in rows])):
        if any(ends):
            columns.append(_Column(head, [*map(_range, ends), ""]))
    counts = [row.samples for row in rows]
    if any(count is not None for count in counts):
        columns.append(_Column("n", [*map(_count, counts), _count(_whole_sum(counts))]))
    return columns


def _legend(rows: Sequence[Category], columns: Sequence[_Column], unit: str, width: int, name_width: int) -> list[str]:
    heads = {column.head for column in columns}
    notes = [f"% is the share of all {_plain(unit)} of the profile."]
    if "cores" in heads:
        notes.append("cores: CPUs in use, by the scheduler's clock.")
    if "us/query" in heads:
        notes.append("us/query: CPU us per query of the engine.")
    if "us/read" in heads:
        notes.append("us/read: CPU us per storage read.")
    if "95 %" in heads:
        notes.append("95 %: the share's interval, by bootstrap over the seconds of the window.")
    if "steal" in heads:
        notes.append("steal: between which the share must be, whichever samples hold time that the hypervisor took.")
    if "n" in heads:
        notes.append("n: samples.")
    if any(_NOT_MEASURED in column.cells for column in columns):
        notes.append(f"{_NOT_MEASURED}: not measured.")
    lines = _wrap(" ".join(notes), width)
    for row in rows:
        if label := _plain(row.label):
            lines += _hanging(_plain(row.name), label, name_width, width)
    return lines


def summary_block(items: Sequence[tuple[str, str, str]], width: int) -> str:
    """(name, value, explanation) aligned in columns; the explanation wraps, or goes below where narrow."""
    _check_width(width)
    plain = [(_plain(name), _plain(value), _plain(why)) for name, value, why in items]
    if not plain:
        return ""
    name_width = min(max(cells(name) for name, _, _ in plain), width // 3)
    value_width = max(1, min(max(cells(value) for _, value, _ in plain), width - name_width - 2))
    room = width - name_width - value_width - 4
    lines = []
    for name, value, why in plain:
        start = pad(cut(name, name_width), name_width) + "  "
        values = _wrap(value, value_width) or [""]
        whys = _wrap(why, room) if room >= 24 else []
        for index in range(max(len(values), len(whys))):
            left = start if index == 0 else " " * cells(start)
            middle = values[index] if index < len(values) else ""
            right = "  " + whys[index] if index < len(whys) else ""
            lines.append(left + (pad(middle, value_width) + right if right else middle))
        if room < 24 and why:
            lines += ["  " + part for part in _wrap(why, width - 2)]
    return _joined(lines)


def _check_width(width: int) -> None:
    if width < LEAST_WIDTH:
        raise ValueError(f"a table cannot be {width} columns wide; {LEAST_WIDTH} is the least")


def _plain(text: str) -> str:
    """One line without control characters: a name from a profile must not steer the terminal."""
    return printable(" ".join(text.split()))


def _us(figure: float | None) -> str:
    return _NOT_MEASURED if figure is None or not math.isfinite(figure) else f"{figure:.3f}"


def _range(ends: tuple[float, float] | None) -> str:
    return _NOT_MEASURED if ends is None else "{:.1f}..{:.1f}".format(*ends)


def _count(count: int | None) -> str:
    return _NOT_MEASURED if count is None else format(count, ",")


def _sum(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return math.fsum(known) if len(known) == len(figures) else None


def _whole_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _row(name: str, figures: Sequence[str], columns: Sequence[_Column], name_width: int) -> str:
    right = (" " * (column.width - cells(text)) + text for text, column in zip(figures, columns, strict=True))
    return "  ".join([pad(cut(name, name_width), name_width), *right])


def _wrap(text: str, width: int) -> list[str]:
    # textwrap counts characters; half the room is safe where some are two columns wide
    room = width if cells(text) <= len(text) else max(1, width // 2)
    return textwrap.wrap(text, room, break_on_hyphens=False)


def _hanging(name: str, text: str, name_width: int, width: int) -> list[str]:
    room = width - name_width - 2
    if room < 16:
        return [*_wrap(f"{name}: {text}", width)]
    parts = _wrap(text, room)
    start = pad(cut(name, name_width), name_width)
    return [f"{start}  {parts[0]}", *(" " * (name_width + 2) + part for part in parts[1:])]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines) + "\n"
