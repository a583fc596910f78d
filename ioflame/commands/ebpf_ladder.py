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
the loader's own and printed, with the time of the programs themselves: about 0.5 us an entry, but ten times that and
more in a VM where the function begins with an instruction that the kernel has to single-step, which is named then.
`make bench-observers` measures the loss of QPS with one query in eight followed, beside no observer; --no-reader and
--start syscall leave traps out.
"""

_EXAMPLE = """
ioflame ebpf ladder --pid 31492 --seconds 3 --sample 1        (db_bench readrandom, O_DIRECT, on a busy VM of 2 CPUs)

stage     from -> to                                   avg       p50       p90       p99     p99.9       max     share
get_pre   query called -> file reader                 6.94      6.08      8.46     19.49     61.17   2153.14      3.8%
...
device    to the driver -> request done              63.85     56.87     66.73    277.21    375.73   5612.18     35.2%
wake      request done -> waking begins               0.91      0.83      1.05      2.78      3.58     60.45      0.5%
runq      waking begins -> thread runs               91.42     19.64     29.19   1940.02   5056.41   7826.38     50.4%
...
total     the whole query                           181.24     99.11    158.34   2106.85   5338.82  13110.81    100.0%

sum of the parts        181.24  +0.000 us beside the total
of it, the probes         2.25  their programs measured, their traps estimated
query, all classes      175.84  reads and cache hits together
client's own loop         2.32  from a query's return to the next query
rx.lat                  178.18  threads x 1e6 / qps, by the queries seen
rest                      0.02  +0.0 % of rx.lat
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
