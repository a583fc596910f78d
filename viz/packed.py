"""The profile that a report page holds: one reader and one writer in Python, and their twin in packed.js.

Columns, depth-first, names interned, own weights instead of totals (most are 0). What the script reads is what
`unpack` reads; tests compare the two stack by stack, so they cannot drift.

    names, forms            distinct names, sorted; where the shorter forms of each begin, in UTF-16 units
    categories, leaves      [name, label] of the owner and the leaf view; leaves is empty where no leaf view was made
    name, depth, category   of each node; node 0 is the whole profile, and the depths give the tree
    own, samples            what ends at the node; samples is null where they were not counted
    leaf                    what the stacks that end at the node are counted under in the leaf view, or null
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viz.frames import OTHER, FrameTree, Stack, printable
from viz.labels import shorter_forms

__all__ = ("LARGEST_SAFE", "end_samples", "json_text", "pack", "paths", "unpack")

LARGEST_SAFE = 2**53 - 1  # the largest integer that a JavaScript number holds with all below it


def pack(
    tree: FrameTree,
    labels: Mapping[str, str],
    leaf_of: Mapping[tuple[str, ...], str] | None = None,
    leaf_labels: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The columns of `tree`. leaf_of: the leaf category of each stack; leaf_labels: their order and labels."""
    names = sorted(set(tree.name))
    number = {name: index for index, name in enumerate(names)}
    exact = tree.total <= LARGEST_SAFE  # else all weights go as text, for one type
    leaves = {printable(name): printable(label) for name, label in leaf_labels}
    leaf: list[int] | None = None
    if leaf_of is not None:
        for name in sorted(set(leaf_of.values())):
            leaves.setdefault(printable(name), "")
        place = {name: index for index, name in enumerate(leaves)}
        ends = paths(tree)
        leaf = [place[leaf_of.get(ends[node], OTHER)] if node in ends else 0 for node in range(len(tree))]
    return {
        "format": 1,
        "names": names,
        "forms": [[_utf16(name, start) for start in shorter_forms(name)] for name in names],
        "categories": [[name, labels.get(name, "")] for name in tree.categories],
        "leaves": [[name, label] for name, label in leaves.items()],
        "name": [number[name] for name in tree.name],
        "depth": tree.depth,
        "category": tree.category,
        "own": tree.own if exact else [str(weight) for weight in tree.own],
        "samples": None if tree.samples is None else end_samples(tree),
        "leaf": leaf,
    }


def unpack(data: Mapping[str, Any]) -> list[tuple[Stack, str | None]]:
    """The stacks that the columns stand for, each with its leaf category."""
    if data.get("format") != 1:
        raise ValueError(f"packed data of format {data.get('format')!r}; this reads format 1")
    path: list[int] = []
    found = []
    for node, depth in enumerate(data["depth"]):
        del path[depth:]
        path.append(node)
        own = int(data["own"][node])
        if not own:
            continue
        frames = tuple(data["names"][data["name"][i]] for i in path[1:])
        category = data["categories"][data["category"][node]][0]
        anchor = -1
        if category != OTHER:
            anchor = next(i for i, at in enumerate(path[1:]) if data["category"][at] == data["category"][node])
        samples = None if data["samples"] is None else data["samples"][node]
        leaf = None if data["leaf"] is None else data["leaves"][data["leaf"][node]][0]
        found.append((Stack(frames, own, samples, category, anchor), leaf))
    return found


def paths(tree: FrameTree) -> dict[int, tuple[str, ...]]:
    """The frames of the stacks that end at a node, for every node where some do."""
    path: list[str] = []
    found = {}
    for node, depth in enumerate(tree.depth):
        del path[depth:]
        path.append(tree.name[node])
        if tree.own[node]:
            found[node] = tuple(path[1:])
    return found


def end_samples(tree: FrameTree) -> list[int]:
    """The samples of the stacks that end at each node."""
    assert tree.samples is not None
    own = list(tree.samples)
    path: list[int] = []
    for node, depth in enumerate(tree.depth):
        del path[depth:]
        if path:
            own[path[-1]] -= tree.samples[node]
        path.append(node)
    return own


def json_text(data: object) -> str:
    """JSON that is also XML text and cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _utf16(name: str, start: int) -> int:
    return start if name.isascii() else len(name[:start].encode("utf-16-le")) // 2
