"""`writes`: where the time of a write goes, by its stages, and in the queue of writers by those of its leaders."""

from __future__ import annotations

import argparse
from pathlib import Path

from markupsafe import Markup

from ebpf.writes import WritesRequest, write_checks, writes_observer
from ground.results.accounts import Account
from ground.results.files import Files
from ground.results.jobs import RunJobs, read_run_jobs
from ground.results.run import Run
from ground.results.write_ladder import QUEUE, WriteLadder, read_write_ladder
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.analysis.writes import stall_causes, write_cost_checks
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext, add_returns, one_pid
from viz.page.run_view import Observed, Panel
from viz.table import Section
from viz.tables.writes import write_groups, write_rows, writes_section

# With and without watching, of a second each and as much to attach and detach.
_TURNS = 10


def _observer(context: ObserverContext) -> Observer:
    # A workload of ours runs for this, and the plain windows beside it show what it cost; a target's writes are slowed
    # only where that was asked for.
    force = context.force or context.run.record.target is None
    request = WritesRequest(context.pids[0], force=force, symbols=context.symbols)
    return writes_observer(request, context.children, context.run.path(Files.WRITES))


def _section(ladder: WriteLadder, run: Run | None) -> Section:
    path = run.path(Files.JOBS) if run is not None else None
    jobs = read_run_jobs(path) if path is not None and path.exists() else None
    return writes_section(ladder, stall_causes(jobs, ladder.start_ns, ladder.end_ns) if jobs is not None else [])


def _accounts(run: Run) -> list[Account]:
    ladder = _RESULT.of(run)
    if not ladder.finished:
        return []
    # The wait in the queue is split by what leaders did meanwhile.
    rows = {
        f"queue: {row.label.removeprefix('leader: ')}" if row.within_queue else row.label: row.ns[0]
        for row in write_rows(write_groups(ladder)[-1:])
        if row.name != QUEUE or row.within_queue
    }
    times = {name: ns * ladder.finished / 1e3 for name, ns in rows.items()}
    # Where only few stages were measured, `rest` has the others: such rows do not compare with those of all stages.
    found = [Account("writepath" if ladder.full else "write_calls", ladder.finished, times)]
    if ladder.grouped:
        found.append(Account("groups", ladder.grouped, {"groups": ladder.groups}))
    return found


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--stages",
        default="auto",
        choices=("auto", "full", "few"),
        help="full: all of them; few: the queue, stalls and the log's calls; auto: all where that is cheap (default)",
    )
    add(
        "--exact-wake-ups",
        action="store_true",
        help="watch whoever ends a wait in the queue, too: 1 to 3 us of each write; not comparable with runs without",
    )
    add("--force", action="store_true", help="follow writes even where that takes more than 5 %% of a CPU")
    add(
        "--symbols",
        type=Path,
        metavar="NAME|FILE",
        help="rocksdb (default), leveldb, or a file that names the functions of the write path",
    )
    add_returns(parser)


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    request = WritesRequest(
        one_pid(arguments), arguments.stages, arguments.force, arguments.symbols, arguments.exact_wake_ups,
        arguments.return_trampolines, _TURNS,
    )  # fmt: skip
    return writes_observer(request, children, out)


def _panel(seen: Observed) -> Markup:
    from viz.page.writes import writes_panel

    ladder, jobs = seen.the(Files.WRITES, WriteLadder), seen.of(Files.JOBS, RunJobs)
    return writes_panel(ladder, stall_causes(jobs, ladder.start_ns, ladder.end_ns) if jobs else ())


_RESULT = JsonResult(
    Files.WRITES,
    read_write_ladder,
    _section,
    lambda ladder, _: [*write_checks(ladder), *write_cost_checks(ladder)],
)
INSTRUMENT = Instrument(
    "writes",
    order=10,
    observer=_observer,
    result=Files.WRITES,
    reads={_RESULT.file: _RESULT.read, Files.JOBS: read_run_jobs},
    analyse=_RESULT.analyse,
    accounts=_accounts,
    parts={"writepath": _RESULT.part("a write, stage by stage")},
    panels=[Panel("Write path", "writes", 9, [Files.WRITES], _panel, of_writes=True)],
    alone=Alone(
        "the write path: a write stage by stage, and its wait in the queue by what its leaders did",
        _add_arguments,
        _alone,
        _RESULT.show,
    ),
    names=True,
    one_process=True,
)
