"""`runqlat`: how long the threads of a process wait for a CPU."""

from __future__ import annotations

import argparse
from pathlib import Path

from markupsafe import Markup

from ebpf.backends import choose_backend
from ebpf.bpftrace import BpftraceRun, Edge, ToolObserver, read_histograms, read_maps, read_totals
from ebpf.observer import CoreObserver, loader_binary, option_words
from ground.results.files import Files
from ground.results.histogram import Histogram
from ground.results.off_cpu import RunQueue, read_run_queue
from ground.system.held_process import HeldProcess
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.ranges import within
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext, add_backend, one_pid
from viz.page.run_view import Observed, Panel
from viz.tables.off_cpu import run_queue_section

# In the order of preference.
_BACKENDS = ("co-re", "bpftrace")

_HOW = (
    "tracepoints sched_waking and sched_switch; a wake-up that overtakes the switch-out, or whose event the kernel "
    "skipped because it interrupted another, is not timed: no_start"
)
# As the script numbers them.
_KINDS = {1: "woken", 2: "preempted", 3: "started"}


def run_queue_observer(
    children: Children, pid: int, out: Path, *, map_entries: int | None = None, backend: str = "auto",
    turns: bool = False,
) -> Observer:  # fmt: skip
    """Waits for a CPU of a process's threads, as JSON (`RunQueue`) in `out`. HostError where no backend works here.

    map_entries: of the map of threads, CO-RE's alone (None: the program's own size); turns: take turns, where the
    backend can
    """
    if choose_backend(backend, "runqlat", _BACKENDS) == "bpftrace":
        return _bpftrace(children, pid, out)
    what = "eBPF on sched_switch and sched_waking: run-queue waits"
    return CoreObserver("runqlat", what, children, option_words(pid=pid, map_entries=map_entries), out, turns=turns)


def _bpftrace(children: Children, pid: int, out: Path) -> Observer:
    run = BpftraceRun(children, "runqlat", [pid, 0, "CONTROL"], out)

    def result(opened: Edge[None], closed: Edge[None]) -> RunQueue:
        return decode(run.text, pid, (opened.ns, closed.ns))

    what = "a bpftrace script on sched_switch and sched_waking: run-queue waits"
    return ToolObserver("runqlat", what, run, lambda: None, result, out, HeldProcess(pid))


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


def _observer(context: ObserverContext) -> Observer:
    out = context.run.path(Files.RUN_QUEUE)
    return run_queue_observer(context.children, context.pids[0], out, turns=context.turns)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend(parser, _BACKENDS)
    parser.add_argument("--map-entries", type=within("--map-entries", int, 1, 1 << 24), help=argparse.SUPPRESS)


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    pid, entries = one_pid(arguments), arguments.map_entries
    return run_queue_observer(children, pid, out, map_entries=entries, backend=arguments.backend)


def _panel(seen: Observed) -> Markup:
    from viz.page.off_cpu import run_queue_panel

    return run_queue_panel(seen.the(Files.RUN_QUEUE, RunQueue))


_RESULT = JsonResult(
    Files.RUN_QUEUE, read_run_queue, lambda queue, _: run_queue_section(queue), lambda queue, _: queue.checks()
)
INSTRUMENT = Instrument(
    "runqlat",
    order=5,
    observer=_observer,
    result=Files.RUN_QUEUE,
    reads={_RESULT.file: _RESULT.read},
    analyse=_RESULT.analyse,
    parts={"runqlat": _RESULT.part("run-queue waits")},
    panels=[Panel("Run-queue waits", "runqlat", 4, [Files.RUN_QUEUE], _panel)],
    alone=Alone(
        "run-queue waits of a process: how long its threads, woken or preempted, have no CPU; context switches",
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    names=True,
    one_process=True,
    takes_turns=loader_binary() is not None,  # bpftrace counts once
)
