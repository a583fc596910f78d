"""Windows of a comparison as dots: by time, and by their place in the block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from viz.svg.axes import nice_step
from viz.svg.elements import element, label, plot

_WIDTH, _HEIGHT, _TIME_END, _PLACE_BEGIN = 1000, 260, 690, 750
_LEFT, _RIGHT, _TOP, _FOOT = 56, 16, 14, 34


@dataclass(frozen=True)
class Dot:
    """A window's figure over the base's in its block. session: its number; block: counted from 0 over all sessions."""

    arm: str
    session: int
    block: int
    position: int
    ratio: float


def blocks_plot(dots: Sequence[Dot], arms: Sequence[str], words: str) -> Markup:
    """Left by block, right by position; arms have the hues of their places."""
    reach = max(0.005, *(abs(math.log(dot.ratio)) for dot in dots)) * 1.08
    middle, half = (_TOP + _HEIGHT - _FOOT) / 2, (_HEIGHT - _FOOT - _TOP) / 2

    def y(ratio: float) -> float:
        return middle - half * math.log(ratio) / reach

    parts: list[Markup] = []
    step = nice_step(100 * (math.exp(reach) - 1) / 3)
    for turn in range(-6, 7):
        percent = turn * step
        if percent > -100 and _TOP <= y(1 + percent / 100) <= _HEIGHT - _FOOT:
            at = y(1 + percent / 100)
            for begin, end in ((_LEFT, _TIME_END), (_PLACE_BEGIN, _WIDTH - _RIGHT)):
                parts.append(element("line", class_="grid", x1=begin, x2=end, y1=at, y2=at))
            parts.append(label(f"{percent:+.3g} %" if turn else "base", _LEFT - 6, at + 4, "tick end"))
    blocks = 1 + max(dot.block for dot in dots)
    places = 1 + max(dot.position for dot in dots)
    by_time, by_place = (_TIME_END - _LEFT) / blocks, (_WIDTH - _RIGHT - _PLACE_BEGIN) / places
    ordered = sorted(dots, key=lambda dot: dot.block)
    for before, after in pairwise(ordered):
        if before.session != after.session:
            x = _LEFT + by_time * after.block
            parts.append(element("line", class_="mark", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _FOOT))
    radius = max(1.6, min(4.0, by_time / (places + 1)))
    for dot in ordered:
        hue = arms.index(dot.arm)
        told = element(
            "title", f"{dot.arm}: {100 * (dot.ratio - 1):+.2f} %, block {dot.block + 1}, place {dot.position + 1}"
        )
        across = (hue + 1) / (len(arms) + 1)
        in_block = (dot.position + 0.5) / places
        for x in (_LEFT + by_time * (dot.block + in_block), _PLACE_BEGIN + by_place * (dot.position + across)):
            parts.append(element("circle", told, class_=f"h{hue % 16} edged", cx=x, cy=y(dot.ratio), r=radius))
    parts.append(label("blocks, in the order of time", (_LEFT + _TIME_END) / 2, _HEIGHT - 8, "tick mid"))
    for place in range(places):
        parts.append(label(str(place + 1), _PLACE_BEGIN + by_place * (place + 0.5), _HEIGHT - 20, "tick mid"))
    parts.append(label("place in the block", (_PLACE_BEGIN + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "tick mid"))
    return plot(_WIDTH, _HEIGHT, f"{words} of each window against the base, by time and by place in the block", *parts)
