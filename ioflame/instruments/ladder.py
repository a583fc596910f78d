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
ioflame ebpf ladder --pid 17919 --seconds 3
(db_bench readrandom, 4 threads, O_DIRECT, on a busy VM of 2 CPUs)

stage       avg    p50    p90    p99  p99.9    max  share
get_pre    4.75   3.50   4.70  38.79 124.34 2754.0   3.4% ▊
rdr_pre    0.67   0.52   0.67   1.20  47.83 183.31   0.5% ▏
sys_pre    1.29   1.09   1.39   5.46  25.82  67.95   0.9% ▎
queue      1.18   0.69   1.01   2.93  24.69 3534.5   0.8% ▎
device    48.70  41.65  76.26 122.58 429.47 2907.9  34.4% ████████▎
wake       0.21   0.17   0.27   0.74   1.23   7.78   0.1%
runq      73.69  43.58  97.62 553.01 3520.1  52657  52.0% ████████████▌
sys_post   1.09   0.54   0.84  11.29  73.34 254.49   0.8% ▏
rdr_post   1.42   0.74   1.15  11.86  78.80 1345.0   1.0% ▎
get_post   8.59   5.17   7.91  72.21 222.93 2390.4   6.1% █▌
total    141.60 104.29 183.06 747.96 3829.0  52846 100.0%
...
(docs/usage.md shows all of it)
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
        arguments.pid[0], arguments.sample, arguments.start, not arguments.no_reader, arguments.symbols,
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
    place=3,
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
