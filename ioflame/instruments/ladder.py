"""`ladder`: a query through engine, read call, block queue, device, wake-up, run queue and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from markupsafe import Markup

from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ground.errors import UsageError
from ground.results.accounts import Account
from ground.results.files import Files
from ground.results.ladder import Ladder, read_ladder
from ground.results.metrics import metrics_of
from ground.results.run import Run, read_or_none
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.ranges import within
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext, Refusal, add_queries
from viz.page.run_view import Observed, Panel
from viz.tables.ladder import ladder_section

_NOT_WRITING = Refusal(
    "this workload writes: the ladder follows the storage reads of a query, and neither a Put's way through the log "
    "and the memtable nor what flushes and compactions read on nobody's behalf",
    "a workload that only reads, or no ladder among what is collected",
)

_OVERHEAD = """
Every query is trapped where it begins and where it is left, and so is the file reader. Returns are seen by probes of
the functions' own exits: a return trampoline would end a process whose exceptions or runtime read the stack. What a
trap costs here is measured on a function of the loader's own and printed, with the time of the programs themselves:
about 0.5 us, but ten times that in a VM where the kernel has to single-step the instruction. That is named where it is
the function's first; its return is single-stepped on x86-64 unless it was compiled with a stack protector, as
distributions do.
`make bench-observers` measures the loss of QPS with one query in eight followed, beside no observer; --no-reader and
--start syscall leave traps out.
"""

_EXAMPLE = """
ioflame ebpf ladder --pid 5283 --seconds 3
(db_bench readrandom, 1 thread, O_DIRECT, on a VM of 2 CPUs)

Latency ladder of Gets (us; process 5283, 3.0 s, one in 8 followed)
starts at rocksdb::DBImpl::Get, then rocksdb::RandomAccessFileReader::Read
in /usr/lib/x86_64-linux-gnu/librocksdb.so.7.8.3

Stages of a query
  stage, us   mean    p50    p90    p99   p99.9     max  share, %
  get_pre     5.47   5.05   6.64  11.86   25.98   91.84      10.0  ██▍
  rdr_pre     0.81   0.75   0.96   1.34    2.57   22.01       1.5  ▍
  sys_pre     2.72   2.43   3.44   5.49   21.09   25.79       5.0  █▎
  queue       1.63   1.48   1.96   2.97   17.71   94.71       3.0  ▊
  device     31.83  31.34  35.99  48.94   70.04  164.40      58.0  █████████████▉
  wake        0.38   0.35   0.54   0.70    0.91    4.55       0.7  ▏
  runq        2.60   1.83   3.01   6.72  246.57  500.86       4.7  █▏
  sys_post    1.15   1.03   1.49   2.18    6.55   21.26       2.1  ▌
...
"""


def latency_of_client(run: Run | None) -> float | None:
    """us of a query in the ladder's window as the client sees it; None where it is not known, or is of something else:
    clients count the keys of a MultiGet, and the steps of a scan."""
    ladder = read_or_none(run.path(Files.LADDER), read_ladder) if run is not None else None
    if run is None or ladder is None or ladder.kind != "get":
        return None
    windows = [window for window in run.record.windows if window.kind == "ladder"]
    return metrics_of(run.record, windows).get("rx.lat")


def _observer(context: ObserverContext) -> Observer:
    request = LadderRequest(context.pids[0], context.ladder_sample, symbols=context.symbols)
    return ladder_observer(request, context.children, context.run.path(Files.LADDER))


def _accounts(run: Run) -> list[Account]:
    ladder = _RESULT.of(run)
    several = ladder.several
    found = [("ladder", ladder.total.count, ladder.stages)]
    found += [("several", several.queries, several.parts)] if several is not None else []
    return [
        Account(name, queries, {rung.name: rung.sum_ns / 1e3 for rung in rungs})
        for name, queries, rungs in found
        if queries
    ]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample",
        type=within("--sample", int, 1, 1_000_000),
        default=8,
        metavar="N",
        help="follow one query in N (default: 8; 1 is each)",
    )
    parser.add_argument(
        "--start",
        default="auto",
        choices=("auto", "query", "syscall"),
        help="where the ladder starts; syscall needs no symbols of the engine (default: auto)",
    )
    parser.add_argument("--no-reader", action="store_true", help="no probes on the engine's file reader")
    add_queries(parser)


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    if len(arguments.pid) != 1 or arguments.children:
        raise UsageError("the ladder follows one process", mend="one --pid, without --children")
    request = LadderRequest(
        arguments.pid[0], arguments.sample, arguments.start, arguments.no_reader, arguments.symbols,
        arguments.kind, arguments.query_symbol, arguments.return_trampolines,
    )  # fmt: skip
    return ladder_observer(request, children, out)


def _panel(seen: Observed) -> Markup:
    from viz.page.ladder import ladder_panel

    return ladder_panel(seen.the(Files.LADDER, Ladder), seen.rx_lat_us)


_RESULT = JsonResult(
    Files.LADDER,
    read_ladder,
    lambda ladder, run: ladder_section(ladder, latency_of_client(run)),
    lambda ladder, run: ladder_checks(ladder, latency_of_client(run)),
)
INSTRUMENT = Instrument(
    "ladder",
    order=3,
    observer=_observer,
    result=Files.LADDER,
    reads={_RESULT.file: _RESULT.read},
    analyse=_RESULT.analyse,
    accounts=_accounts,
    parts={"ladder": _RESULT.part("a query, stage by stage")},
    panels=[Panel("Latency ladder", "ladder", 1, [Files.LADDER], _panel)],
    alone=Alone(
        "latency ladder: a query through engine, read call, block queue, device, wake-up, run queue and back",
        _OVERHEAD,
        _EXAMPLE,
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    names=True,
    one_process=True,
    not_writing=_NOT_WRITING,
)
