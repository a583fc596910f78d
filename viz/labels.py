"""How much of a function's name fits into its frame.

The last part of a C++ or Rust name says most, so leading namespaces and classes are dropped first:
`rocksdb::DBImpl::Get`, then `DBImpl::Get`, then `Get`. What is cut inside a part ends in an ellipsis.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioflame.lines import cells

__all__ = ("fit", "shorter_forms")

_MOST_FORMS = 12
_LONGEST_NAME = 4000


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
