"""`runqlat`: how long the threads of a process wait for a CPU."""

from __future__ import annotations

import argparse
from pathlib import Path

from markupsafe import Markup

from ebpf.runqlat import RUN_QUEUE_BACKENDS, run_queue_observer
from ground.results.files import Files
from ground.results.off_cpu import RunQueue, read_run_queue
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.ranges import within
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext, add_backend, one_pid
from viz.page.run_view import Observed, Panel
from viz.tables.off_cpu import run_queue_section

_OVERHEAD = """
Two small programs run at each context switch of the machine and at each wake-up; no stack is walked.
"""

_EXAMPLE = """
ioflame ebpf runqlat --pid 17919 --seconds 3
(db_bench readrandom, 4 threads, O_DIRECT, on a busy VM of 2 CPUs)

Waits for a CPU (us; process 17919, 3.0 s)
                n  mean   p50   p90    p99  p99.9    max    sum ms
woken     108,034 49.50 36.10 55.30 293.20 2751.4  72012 5,348.118
preempted   5,191 50.75 35.14 53.00 237.94 2346.8 4610.3   263.427
started         0     -     -     -      -      -      -     0.000
context switches: 108,100 voluntary, 5,192 involuntary (37,587/s)
"""


def _observer(context: ObserverContext) -> Observer:
    return run_queue_observer(context.children, context.pids[0], context.run.path(Files.RUN_QUEUE))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend(parser, RUN_QUEUE_BACKENDS)
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
    place=5,
    observer=_observer,
    result=Files.RUN_QUEUE,
    reads={_RESULT.file: _RESULT.read},
    analyse=_RESULT.analyse,
    parts={"runqlat": _RESULT.part("waits for a CPU")},
    panels=[Panel("Run queue", "runqlat", 4, [Files.RUN_QUEUE], _panel)],
    alone=Alone(
        "how long the threads of a process wait for a CPU, woken or preempted; context switches",
        _OVERHEAD,
        _EXAMPLE,
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    names=True,
    one_process=True,
)
