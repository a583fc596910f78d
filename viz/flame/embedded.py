"""What the scripts read: a tree in columns, depth-first, with names interned, as JSON.

Both formats have

    names, forms            names, sorted; where the shorter forms of each begin, in UTF-16 units
    name, depth, category   of each node; node 0 is the whole profile, and the depths give the tree

An SVG file (`tree_columns`) has the totals of each node:

    weight, samples         of the node with all below it; samples is null where they were not counted

A report page (`pack`, format 2, read by assets/profile.js) has own weights by stack, so that its trees can be turned:

    objects, object         distinct objects (DSOs), "" first for an unknown one; the object of each name. One name of
                            two objects is there twice; from `threads` on, names are those of threads
    categories, leaves      [title, label] of the owner and the leaf view; leaves is empty where no leaf view was made
    end, weight, samples    of each stack, by node: the node it ends at; samples is null where they were not counted
    leaf, thread            of each stack: its place in `leaves` and in `names`, or null where that is not known

Where the total is beyond what a JavaScript number holds exactly, all weights are text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ground.results.profile import OTHER
from ground.text.titles import title_of
from viz.flame.layout import shorter_forms
from viz.flame.tree import DrawnTree, FrameTree
from viz.printable import printable

FORMAT = 2

_LARGEST_SAFE = 2**53 - 1  # the largest integer that a JavaScript number holds with all below it


def tree_columns(tree: DrawnTree) -> dict[str, Any]:
    """The columns of `tree` for an SVG file."""
    names = sorted(set(tree.name))
    number = {name: index for index, name in enumerate(names)}
    return {
        **named(names),
        "name": [number[name] for name in tree.name],
        "depth": tree.depth,
        "category": tree.category,
        "weight": _numbers(tree.weight, tree.total),
        "samples": tree.samples,
    }


def pack(
    tree: FrameTree,
    labels: Mapping[str, str],
    leaf_of: Mapping[tuple[str, ...], str] | None = None,
    leaf_labels: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The columns of `tree` for a page.

    leaf_of:     the leaf category of each stack, by its frames; leaf_labels: their order and labels
    """
    entries = sorted(set(zip(tree.name, tree.object, strict=True)))
    number = {entry: index for index, entry in enumerate(entries)}
    threads = sorted({thread for _, thread, *_ in tree.rows if thread}, key=_by_number)
    thread_place = {thread: len(entries) + index for index, thread in enumerate(threads)}
    names = [name for name, _ in entries] + threads
    objects = sorted({""} | {name for _, name in entries})
    object_place = {name: index for index, name in enumerate(objects)}
    leaves = {printable(name): printable(label) for name, label in leaf_labels}
    leaf: list[int] | None = None
    if leaf_of is not None:
        for name in sorted(set(leaf_of.values())):
            leaves.setdefault(printable(name), "")
        leaves.setdefault(OTHER, "")
        place = {name: index for index, name in enumerate(leaves)}
        ends = _paths(tree)
        leaf = [place[printable(leaf_of.get(ends[node], OTHER))] for node, *_ in tree.rows]
    return {
        "format": FORMAT,
        **named(names),
        "objects": objects,
        "object": [object_place[name] for _, name in entries] + [0] * len(threads),
        "threads": len(entries),
        "categories": [[title_of(name), labels.get(name, "")] for name in tree.categories],
        "leaves": [[title_of(name), label] for name, label in leaves.items()],
        "name": [number[entry] for entry in zip(tree.name, tree.object, strict=True)],
        "depth": tree.depth,
        "category": tree.category,
        "end": [node for node, *_ in tree.rows],
        "weight": _numbers([weight for _, _, weight, _ in tree.rows], tree.total),
        "samples": None if tree.samples is None else [samples for *_, samples in tree.rows],
        "leaf": leaf,
        "thread": [thread_place.get(thread, -1) for _, thread, *_ in tree.rows] if threads else None,
    }


def _paths(tree: FrameTree) -> dict[int, tuple[str, ...]]:
    """The frames of the stacks that end at a node, for every node where some do."""
    path: list[str] = []
    found = {}
    for node, depth in enumerate(tree.depth):
        del path[depth:]
        path.append(tree.name[node])
        if tree.own[node]:
            found[node] = tuple(path[1:])
    return found


def _by_number(thread: str) -> tuple[str, int, str]:
    """`db_bench/9` comes before `db_bench/10`."""
    name, _, number = thread.rpartition("/")
    return name, int(number) if number.isdecimal() else 0, thread


def json_text(data: object) -> str:
    """JSON that is also XML text and cannot end the element that contains it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def named(names: Sequence[str]) -> dict[str, Any]:
    """The names, and where the shorter forms of each begin."""

    def utf16(name: str, start: int) -> int:
        return start if name.isascii() else len(name[:start].encode("utf-16-le")) // 2

    return {"names": names, "forms": [[utf16(name, start) for start in shorter_forms(name)] for name in names]}


def _numbers(weights: Sequence[int], total: int) -> Sequence[int | str]:
    return weights if total <= _LARGEST_SAFE else [str(weight) for weight in weights]
