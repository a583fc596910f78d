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


def latency_of_client(run: Run | None) -> float | None:
    """us of a query in the ladder's window as the client sees it; None where it is not known, or is of something else:
    clients count the keys of a MultiGet, and the steps of a scan."""
    ladder = read_or_none(run.path(Files.LADDER), read_ladder) if run is not None else None
    if run is None or ladder is None or ladder.kind != "get":
        return None
    windows = [window for window in run.record.windows if window.kind == "ladder"]
    return metrics_of(run.record, windows).get("rx.lat")


def _observer(context: ObserverContext) -> Observer:
    request = LadderRequest(context.pids[0], context.ladder_sample, symbols=context.symbols, turns=context.turns)
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
        "latency ladder: a query through engine, read call, block queue, device, wake-up, run-queue wait and back",
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    names=True,
    one_process=True,
    not_writing=_NOT_WRITING,
    takes_turns=True,
)
