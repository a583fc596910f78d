"""Off-CPU time of a process, by state and stack."""

from __future__ import annotations

from pathlib import Path

from ebpf.backends import choose_backend
from ebpf.observer import CoreObserver
from ground.system.process import Children


def off_cpu_observer(
    children: Children, pid: int, out: Path, recording: Path, *, waker: bool = False, map_entries: int | None = None
) -> CoreObserver:
    """Stacks of a process's threads by time off the CPU: `out` is the JSON (`OffCpu`), `recording` the stacks.

    HostError where the CO-RE programs do not run: bpftrace 0.17 loses kernel stacks, cannot show what a wait in a futex
    is for, and knows nothing of threads that are blocked all the time.

    waker: take the stack of whoever wakes a thread, too; map_entries: of every map (None: the program's own sizes)
    """
    choose_backend("co-re", "offcpu")
    arguments = ["--pid", str(pid), "--recording", str(recording)]
    arguments += ["--waker"] if waker else []
    arguments += ["--map-entries", str(map_entries)] if map_entries is not None else []
    what = "eBPF on sched_switch and sched_waking: stacks by time off the CPU"
    return CoreObserver("offcpu", what, children, arguments, out)
