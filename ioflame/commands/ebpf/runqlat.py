"""`ioflame ebpf runqlat`: how long the threads of a process wait for a CPU."""

from __future__ import annotations

import argparse
from pathlib import Path

from ebpf.runqlat import RUN_QUEUE_BACKENDS, run_queue_observer
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.commands.ebpf.offcpu import one_pid
from ioflame.commands.ebpf.program import EbpfProgram, add_backend
from ioflame.stages.shown import show_run_queue

__all__ = ("PROGRAM",)

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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend(parser, RUN_QUEUE_BACKENDS)
    parser.add_argument("--map-entries", type=int, help=argparse.SUPPRESS)


def _observer(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    pid, entries = one_pid(arguments), arguments.map_entries
    return run_queue_observer(children, pid, out, map_entries=entries, backend=arguments.backend)


PROGRAM = EbpfProgram(
    name="runqlat",
    about="how long the threads of a process wait for a CPU, woken or preempted; context switches",
    overhead=_OVERHEAD,
    example=_EXAMPLE,
    add_arguments=_add_arguments,
    observer=_observer,
    show=show_run_queue,
)
