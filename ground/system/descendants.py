"""The processes below a process: which of them has a file open, and whether any of them still works."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ground.system.proc_stat import stat_fields

# Only some kernels have it (CONFIG_PROC_CHILDREN); without it every process of the host is looked at.
_KERNEL_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()


def descendants(pids: Sequence[int]) -> list[int]:
    """`pids`, and every process that is a child of one of them now, or a child's child.

    One may be missing whose sibling ends at that moment (proc(5), children): who must not miss any looks again, or from
    below (`is_below`).
    """
    children = _listed_children if _KERNEL_LISTS_CHILDREN else _children_of_all()
    found = list(pids)
    known = set(found)
    for pid in found:  # grows while we walk along it
        new = [child for child in children(pid) if child not in known]
        found += new
        known.update(new)
    return found


def is_below(pid: int, above: int) -> bool:
    """Whether a process is `above`, or was started by it or by something below it; False for one that is gone."""
    return above in ancestors(pid)


def ancestors(pid: int) -> Iterator[int]:
    """A process, what started it, and so on, as far as they run."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        while pid:
            yield pid
            pid = int(stat_fields(f"/proc/{pid}/stat")[1])


def _listed_children(pid: int) -> list[int]:
    """Those of all its threads; none of one that is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a Path each costs more than the reading
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{tid}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def _children_of_all() -> Callable[[int], list[int]]:
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                found.setdefault(int(stat_fields(f"/proc/{name}/stat")[1]), []).append(int(name))
    return lambda pid: found.get(pid, [])


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


class Pulse:
    """Whether a process, or one below it, runs on a CPU now and then, or waits for one, or within the kernel (state D).

    What hangs does not: it is stopped or deadlocked. What a busy host leaves no CPU, or lets wait for the end of a
    grace period of RCU, as a BPF program does that is taken off its traps, does not hang.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ran = -1
        self._at = 0.0

    def quiet_seconds(self) -> float:
        """Since the last call before which it had run; 0 at the first."""
        seen, now = [_ran_or_waits(pid) for pid in descendants([self._pid])], time.monotonic()
        ran = sum(ns for ns, _ in seen)
        if ran != self._ran or any(waits for _, waits in seen):
            self._ran, self._at = ran, now
        return now - self._at


def _ran_or_waits(pid: int) -> tuple[int, bool]:
    """What all its threads have been on a CPU, to the ns: far finer than the ticks of /proc/PID/stat; whether one of
    them runs, or waits for a CPU or within the kernel."""
    ran, waits = 0, False
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                ran += int((task / "schedstat").read_text(encoding="ascii").split()[0])
                waits |= stat_fields(task / "stat")[0] in (b"R", b"D")
    return ran, waits
