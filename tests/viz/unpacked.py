"""The columns of an embedded profile read again, as assets/profile.js reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ground.results.profile import OTHER
from viz.flame.embedded import FORMAT
from viz.flame.stacks import Stack


def unpack(data: Mapping[str, Any]) -> list[tuple[Stack, str | None]]:
    """The stacks in the columns, each with its leaf category."""
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
