"""Stacks with their categories, written as lines: what tests make their profiles from."""

from __future__ import annotations

from collections.abc import Iterable

from viz.flame.stacks import Stack
from viz.printable import printable


def read_categorised(lines: Iterable[bytes]) -> list[Stack]:
    """Stacks of `category<TAB>anchor_depth<TAB>samples<TAB>weight<TAB>comm;root;...;leaf`."""
    found = []
    for line in lines:
        category, anchor, samples, weight, stack = line.split(b"\t", 4)  # a frame may hold a tab
        frames = tuple(printable(frame) or "[no name]" for frame in stack.split(b";"))
        found.append(Stack(frames, int(weight), int(samples), printable(category), int(anchor)))
    return found
