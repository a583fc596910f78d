"""Background jobs as bars on a time axis, a lane for each output level; stalls as lanes of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from viz.svg.elements import element, label

_LANE, _BAR = 16, 12


@dataclass(frozen=True, slots=True)
class Bar:
    """begin, end: seconds of the axis; words: what a tooltip says"""

    begin: float
    end: float
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """name: beside the lane; kind: a class of plots.css, `flush`, `compaction` or `held`"""

    name: str
    kind: str
    bars: Sequence[Bar]


def lanes_height(lanes: Sequence[Lane]) -> int:
    return _LANE * len(lanes)


def drawn_lanes(lanes: Sequence[Lane], top: float, right: float, x: Callable[[float], float]) -> list[Markup]:
    """right: where the names begin. Bars of one lane that overlap are drawn half transparent, so both are seen."""
    parts = []
    for place, lane in enumerate(lanes):
        y = top + _LANE * place + (_LANE - _BAR) / 2
        for bar in lane.bars:
            width = max(x(bar.end) - x(bar.begin), 0.75)
            title = element("title", bar.words)
            parts.append(
                element("rect", title, class_=f"job {lane.kind}", x=x(bar.begin), y=y, width=width, height=_BAR)
            )
        parts.append(label(lane.name, right + 5, y + _BAR - 2))
    return parts
