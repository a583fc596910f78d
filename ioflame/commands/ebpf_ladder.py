"""`ioflame ebpf ladder`: the latency ladder of a process' queries."""

from __future__ import annotations

import argparse
from pathlib import Path

from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ioflame.commands.ebpf_program import EbpfProgram, Shown
from ioflame.errors import UsageError
from ioflame.ladder import read_ladder
from ioflame.observer import Observer
from ioflame.process import Children
from viz.ladder import ladder_text

__all__ = ("PROGRAM",)

_OVERHEAD = """
Every query is trapped at its entry, and at the entry of the file reader; only a followed one at its returns too (where
the kernel has uprobe sessions, Linux 6.13; elsewhere every one). What a trap costs here is measured on a function of
the loader's own and printed, with the time of the programs themselves. `make bench` measures the loss of QPS with one
query in eight followed, beside a null observer; --no-reader and --start syscall leave traps out.
"""

_EXAMPLE = """
ioflame ebpf ladder --pid 4242 --seconds 10 --sample 8
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample", type=int, default=8, metavar="N", help="follow one query in N (default: 8; 1 is each)"
    )
    parser.add_argument(
        "--start",
        default="auto",
        choices=("auto", "query", "syscall"),
        help="where the ladder starts; syscall needs no symbols of the engine (default: auto)",
    )
    parser.add_argument("--no-reader", action="store_true", help="no probes on the engine's file reader")


def _observer(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    if len(arguments.pid) != 1 or arguments.children:
        raise UsageError("the ladder follows one process", mend="one --pid, without --children")
    request = LadderRequest(arguments.pid[0], arguments.sample, arguments.start, not arguments.no_reader)
    return ladder_observer(request, children, out)


def _show(path: Path) -> Shown:
    ladder = read_ladder(path)
    return Shown(ladder_text(ladder), ladder_checks(ladder))


PROGRAM = EbpfProgram(
    name="ladder",
    about="latency ladder: a query through engine, read call, block queue, device, wake-up, run queue and back",
    overhead=_OVERHEAD,
    example=_EXAMPLE,
    add_arguments=_add_arguments,
    observer=_observer,
    show=_show,
)
