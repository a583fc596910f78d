"""The processes below a process, and which of them has a file open."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ioflame.system.proc_stat import stat_fields

__all__ = ("descendants", "having_open")


def descendants(pids: Sequence[int]) -> list[int]:
    """`pids`, and every process that is a child of one of them now, or a child's child."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parents[int(entry.name)] = int(stat_fields(entry / "stat")[1])
    found = list(pids)
    for pid in found:  # grows while we walk along it
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def having_open(path: Path, pids: Sequence[int]) -> list[int]:
    """Those of `pids` that have the file open; none of them where it is not there."""
    try:
        file = path.stat()
    except OSError:
        return []
    return [pid for pid in pids if any(os.path.samestat(file, other) for other in _open_files(pid))]


def _open_files(pid: int) -> list[os.stat_result]:
    """What can be seen of the files that it has open; nothing of a process that is gone or may not be looked into."""
    found = []
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(descriptor.stat())
    return found
