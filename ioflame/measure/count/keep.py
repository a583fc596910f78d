"""Puts what one program counted where it belongs, in whatever order programs end."""

from __future__ import annotations

from folding.callgrind import Counts
from ground.results.counted import Category, Counted, Event


def keep(counted: Counted, counts: Counts, operations: int, turn: int, paddings: int) -> None:
    """turn: the place of its padding; `paddings` for the first again"""
    counted.operations = operations
    if turn == paddings:
        counted.again = counts.events[Event.INSTRUCTIONS]
        return
    for event, count in counts.events.items():
        counted.events.setdefault(event, [0] * paddings)[turn] = count
    for view, rows in counts.views.items():
        kept = counted.views.setdefault(view, [Category(row.name, row.label) for row in rows])
        for row, category in zip(rows, kept, strict=True):
            for event, count in row.events.items():
                category.events.setdefault(event, [0] * paddings)[turn] = count
