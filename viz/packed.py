"""The profile that a report page holds: one reader and one writer in Python, and their twin in packed.js.

Columns, names interned, own weights instead of totals. What the script reads is what `unpack` reads; tests compare the
two stack by stack, so they cannot drift.

    names, forms            names, sorted; where the shorter forms of each begin, in UTF-16 units. One name of two
                            objects is there twice. From `threads` on they are names of threads
    objects, object         distinct objects (DSOs), "" first for an unknown one; the object of each name
    categories, leaves      [name, label] of the owner and the leaf view; leaves is empty where no leaf view was made
    name, depth, category   of each node, depth-first; node 0 is the whole profile, and the depths give the tree
    end, weight, samples    of each stack, by node: the node it ends at; samples is null where they were not counted
    leaf, thread            of each stack: its place in `leaves` and in `names`, or null where that is not known
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viz.frames import OTHER, FrameTree, Stack, printable
from viz.labels import shorter_forms

__all__ = ("FORMAT", "LARGEST_SAFE", "json_text", "pack", "unpack")

FORMAT = 2

LARGEST_SAFE = 2**53 - 1  # the largest integer that a JavaScript number holds with all below it


def pack(
    tree: FrameTree,
    labels: Mapping[str, str],
    leaf_of: Mapping[tuple[str, ...], str] | None = None,
    leaf_labels: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The columns of `tree`.

    leaf_of:     the leaf category of each stack, by its frames; leaf_labels: their order and labels
    """
    entries = sorted(set(zip(tree.name, tree.object, strict=True)))
    number = {entry: index for index, entry in enumerate(entries)}
    threads = sorted({thread for _, thread, *_ in tree.rows if thread}, key=_by_number)
    thread_place = {thread: len(entries) + index for index, thread in enumerate(threads)}
    names = [name for name, _ in entries] + threads
    objects = sorted({""} | {name for _, name in entries})
    object_place = {name: index for index, name in enumerate(objects)}
    exact = tree.total <= LARGEST_SAFE  # else all weights go as text, for one type
    leaves = {printable(name): printable(label) for name, label in leaf_labels}
    leaf: list[int] | None = None
    if leaf_of is not None:
        for name in sorted(set(leaf_of.values())):
            leaves.setdefault(printable(name), "")
        leaves.setdefault(OTHER, "")
        place = {name: index for index, name in enumerate(leaves)}
        ends = _paths(tree)
        leaf = [place[printable(leaf_of.get(ends[node], OTHER))] for node, *_ in tree.rows]
    weights = [weight for _, _, weight, _ in tree.rows]
    return {
        "format": FORMAT,
        "names": names,
        "forms": [[_utf16(name, start) for start in shorter_forms(name)] for name in names],
        "objects": objects,
        "object": [object_place[name] for _, name in entries] + [0] * len(threads),
        "threads": len(entries),
        "categories": [[name, labels.get(name, "")] for name in tree.categories],
        "leaves": [[name, label] for name, label in leaves.items()],
        "name": [number[entry] for entry in zip(tree.name, tree.object, strict=True)],
        "depth": tree.depth,
        "category": tree.category,
        "end": [node for node, *_ in tree.rows],
        "weight": weights if exact else [str(weight) for weight in weights],
        "samples": None if tree.samples is None else [samples for *_, samples in tree.rows],
        "leaf": leaf,
        "thread": [thread_place.get(thread, -1) for _, thread, *_ in tree.rows] if threads else None,
    }


def unpack(data: Mapping[str, Any]) -> list[tuple[Stack, str | None]]:
    """The stacks that the columns stand for, each with its leaf category."""
    if data.get("format") != FORMAT:
        raise ValueError(f"packed data of format {data.get('format')!r}; this reads format {FORMAT}")
    names, objects, categories = data["names"], data["objects"], data["categories"]
    path: list[int] = []
    found = []
    stack = 0
    for node, depth in enumerate(data["depth"]):
        del path[depth:]
        path.append(node)
        while stack < len(data["end"]) and data["end"][stack] == node:
            entries = [data["name"][at] for at in path[1:]]
            category = data["category"][node]
            anchor = -1
            if categories[category][0] != OTHER:
                anchor = next(i for i, at in enumerate(path[1:]) if data["category"][at] == category)
            known = tuple(objects[data["object"][entry]] for entry in entries)
            thread = -1 if data["thread"] is None else data["thread"][stack]
            made = Stack(
                tuple(names[entry] for entry in entries),
                int(data["weight"][stack]),
                None if data["samples"] is None else data["samples"][stack],
                categories[category][0],
                anchor,
                known if any(known) else (),
                names[thread] if thread >= 0 else "",
            )
            found.append((made, None if data["leaf"] is None else data["leaves"][data["leaf"][stack]][0]))
            stack += 1
    return found


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
    """JSON that is also XML text and cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _utf16(name: str, start: int) -> int:
    return start if name.isascii() else len(name[:start].encode("utf-16-le")) // 2
