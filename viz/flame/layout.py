"""Which frames are drawn and where, and how much of a function's name fits into its frame.

The last part of a C++ or Rust name says most, so leading namespaces and classes are dropped first:
`rocksdb::DBImpl::Get`, then `DBImpl::Get`, then `Get`. What is cut inside a part ends in an ellipsis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.text.columns import cells
from viz.flame.tree import DrawnTree

_MOST_FORMS = 12
_LONGEST_NAME = 4000


@dataclass(frozen=True, slots=True)
class Box:
    """A frame that is drawn: its node in the tree, and where it lies."""

    node: int
    x: float
    width: float


def layout(tree: DrawnTree, width: float, least: float) -> tuple[list[Box], int]:
    """The boxes of the whole tree that are at least `least` wide, and the weight in those that are not."""
    boxes: list[Box] = []
    left_out, node = 0, 0
    begin = [0] * (max(tree.depth) + 2)  # by depth: the weight left of the next box
    while node < len(tree):
        depth, weight = tree.depth[node], tree.weight[node]
        start = begin[depth]
        begin[depth] += weight
        if node and width * weight / tree.total < least:
            left_out += weight
            node = tree.end[node]
            continue
        begin[depth + 1] = start
        boxes.append(Box(node, width * start / tree.total, width * weight / tree.total))
        node += 1
    return boxes, left_out


def shorter_forms(name: str) -> list[int]:
    """Where the shorter forms of `name` begin: after each `::` that is inside no bracket."""
    if "::" not in name or len(name) > _LONGEST_NAME:
        return []
    starts: list[int] = []
    depth = 0
    for place, char in enumerate(name):
        if char in "<({":
            depth += 1
        elif char in ">)}" and depth:
            depth -= 1
        elif char == ":" and depth == 0 and name.startswith("::", place) and 0 < place < len(name) - 2:
            starts.append(place + 2)
            if name.startswith("operator", place + 2):
                break  # the brackets after it are its name
    return starts[-_MOST_FORMS:]


def fit(name: str, forms: Sequence[int], room: int) -> str:
    """The longest form of `name` that fits into `room` columns; empty where not even three do."""
    if room < 3:
        return ""
    for start in (0, *forms):
        if len(name) - start <= 2 * room and cells(name[start:]) <= room:
            return name[start:]
    last = name[forms[-1] if forms else 0 :][:room]
    while cells(last) > room - 1:
        last = last[:-1]
    return last + "\u2026"
