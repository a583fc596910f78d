"""The processes below a process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

__all__ = ("descendants",)


def descendants(pids: Sequence[int]) -> list[int]:
    """`pids`, and every process that is a child of one of them now, or a child's child."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The name may hold blanks and brackets: fields count from the last closing one.
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                )
    found = list(pids)
    for pid in found:  # grows while we walk along it
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found
