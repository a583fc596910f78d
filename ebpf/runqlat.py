"""Run-queue latency and context switches of a process, by the best backend of this host."""

from __future__ import annotations

from pathlib import Path

from ebpf.backends import choose_backend
from ebpf.bpftrace import BpftraceObserver, BpftraceRun, Edge, read_histograms, read_maps, read_totals
from ebpf.observer import CoreObserver
from ground.results.histogram import Histogram
from ground.results.off_cpu import RunQueue
from ground.system.held_process import HeldProcess
from ground.system.observer import Observer
from ground.system.process import Children

# In the order of preference.
RUN_QUEUE_BACKENDS = ("co-re", "bpftrace")

_HOW = (
    "tracepoints sched_waking and sched_switch; a wake-up that overtakes the switch-out, or whose event the kernel "
    "skipped because it interrupted another, is not timed: no_start"
)
# As the script numbers them.
_KINDS = {1: "woken", 2: "preempted", 3: "started"}


def run_queue_observer(
    children: Children, pid: int, out: Path, *, map_entries: int | None = None, backend: str = "auto"
) -> Observer:
    """Waits for a CPU of a process's threads, as JSON (`RunQueue`) in `out`. HostError where no backend works here.

    map_entries: of the map of threads, CO-RE's alone (None: the program's own size)
    """
    if choose_backend(backend, "runqlat", RUN_QUEUE_BACKENDS) == "bpftrace":
        return _bpftrace(children, pid, out)
    arguments = ["--pid", str(pid)]
    arguments += ["--map-entries", str(map_entries)] if map_entries is not None else []
    return CoreObserver(
        "runqlat", "eBPF on sched_switch and sched_waking: time in the run queue", children, arguments, out
    )


def _bpftrace(children: Children, pid: int, out: Path) -> Observer:
    def result(text: str, opened: Edge[None], closed: Edge[None]) -> RunQueue:
        return decode(text, pid, (opened.ns, closed.ns))

    run = BpftraceRun(children, "runqlat", [pid, 0, "CONTROL"], out)
    what = "a bpftrace script on sched_switch and sched_waking: time in the run queue"
    return BpftraceObserver("runqlat", what, run, lambda: None, result, out, HeldProcess(pid))


def decode(text: str, pid: int, window: tuple[int, int]) -> RunQueue:
    """The script's maps; text: bpftrace's `-f json` output."""
    maps = read_maps(text)
    one = read_totals(maps)
    waits = read_histograms(maps, "wait", int)
    return RunQueue(
        backend="bpftrace",
        how=_HOW,
        pid=pid,
        start_ns=window[0],
        end_ns=window[1],
        waits={name: waits.get(number, Histogram()) for number, name in _KINDS.items()},
        voluntary=one.get("voluntary", 0),
        involuntary=one.get("involuntary", 0),
        losses={
            "no_start": one.get("no_start", 0),
            "negative": one.get("negative", 0),
            "lost_wait": one.get("wait", 0) - sum(held.count for held in waits.values()),
        },
    )
