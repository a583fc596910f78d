"""Run-queue latency and context switches of a process."""

from __future__ import annotations

from pathlib import Path

from ebpf.observer import CoreObserver
from ioflame.process import Children

__all__ = ("run_queue_observer",)


def run_queue_observer(children: Children, pid: int, out: Path, *, map_entries: int | None = None) -> CoreObserver:
    """Waits for a CPU of a process's threads, as JSON (`RunQueue`) in `out`.

    map_entries: of the map of threads (None: the program's own size)
    """
    arguments = ["--pid", str(pid)]
    arguments += ["--map-entries", str(map_entries)] if map_entries is not None else []
    return CoreObserver(
        "runqlat", "eBPF on sched_switch and sched_waking: time in the run queue", children, arguments, out
    )
