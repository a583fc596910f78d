"""Whether a process, or one below it, still works."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from ground.system.descendants import descendants


class Pulse:
    """Whether a process, or one below it, runs on a CPU now and then, as whatever works does.

    What hangs does not: it is stopped, deadlocked, or waits for a dead disk.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ran = -1
        self._at = 0.0

    def quiet_seconds(self) -> float:
        """Since the last call before which it had run; 0 at the first."""
        ran, now = sum(map(_ran_ns, descendants([self._pid]))), time.monotonic()
        if ran != self._ran:
            self._ran, self._at = ran, now
        return now - self._at


def _ran_ns(pid: int) -> int:
    """What all its threads have been on a CPU, to the ns: far finer than the ticks of /proc/PID/stat."""
    ran = 0
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                ran += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return ran
