"""`tail`: why the slowest queries are slow, from records of single queries beside median ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ground.errors import RefusedError
from ground.results.accounts import Account
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.frame_differences import FrameDifferences, read_frame_differences
from ground.results.interval import Interval
from ground.results.jobs import read_run_jobs
from ground.results.ladder import READ_CALLS
from ground.results.query_records import read_query_records, read_recorded
from ground.results.run import Run
from ground.results.tail import P99, Tail, read_tail
from ground.system.atomic_files import check_new, write_json, write_whole
from ground.text.ranges import within
from ioflame.instruments.instrument import Alone, Instrument, ObserverContext, Part, add_queries, one_pid
from viz.page.run_view import Observed, Panel
from viz.table import Section
from viz.tables.tail import tail_section, worst_section
from viz.terminal.table import section_text

if TYPE_CHECKING:
    from markupsafe import Markup

    from ground.system.observer import Observer
    from ground.system.process import Children
    from workloads.registry import Rules


def _observer(context: ObserverContext) -> Observer:
    from ebpf.tail import TailRequest, tail_observer

    request = TailRequest(
        context.pids[0],
        threshold_us=context.threshold_us,
        expected=context.seconds,
        force=context.force,
        symbols=context.symbols,
        query_symbol=context.query_symbol,
    )
    return tail_observer(request, context.children, context.run.directory)


def _analyse(run: Run, rules: Rules) -> list[Check]:
    from ioflame.analysis.tail_detail import job_stretches

    jobs = job_stretches(read_run_jobs(run.path(Files.JOBS))) if run.path(Files.JOBS).exists() else {}
    return analyse(run.directory, rules, jobs)[1]


def analyse(
    directory: Path, rules: Rules, jobs: Mapping[str, Sequence[tuple[int, int]]] | None = None
) -> tuple[Tail, list[Check]]:
    """Names the stacks of what was recorded in `directory`, and writes what follows from it beside it: `tail.json`, the
    stacks of both groups, and the timelines of the longest queries.

    jobs: by kind, when they ran (CLOCK_MONOTONIC, ns)
    """
    from ebpf.tail import record_checks
    from folding.locks import read_rules
    from folding.reasons import fold_reasons
    from folding.wait_places import WAIT_EVENT, fold_wait_places
    from ioflame.analysis.checks.tail import tail_checks
    from ioflame.analysis.tail import tail_of
    from ioflame.analysis.tail_detail import folded_time
    from viz.export.chrome_trace import chrome_trace

    recorded = read_recorded(directory / Files.RECORDED)
    file = read_query_records(directory / Files.QUERY_RECORDS)
    locks = read_rules(rules.locks)
    stacks, profile = directory / Files.RECORD_STACKS, directory / Files.RECORD_PROFILE
    places = fold_wait_places(stacks, profile, rules.categories, locks) if recorded.places else {}
    reasons = None
    if recorded.kind == READ_CALLS and rules.reasons and recorded.places:
        options = ["--event", WAIT_EVENT]
        reasons = fold_reasons(stacks, directory / Files.RECORD_REASONS, rules.reasons[0], options)[0]
    found = tail_of(recorded, file, places, jobs, reasons=reasons)
    tail = found.tail
    write_json(directory / Files.TAIL, tail)
    sampled = [record for record in file.records if record.sampled]
    for name, least, most in (
        (Files.TAIL_FOLDED, tail.threshold.ns, None),
        (Files.TAIL_MEDIAN_FOLDED, tail.median.low_ns, tail.median.high_ns),
    ):
        text = folded_time(found.used, sampled, found.undisturbed, places, file.states, least, most)
        write_whole(directory / name, text.encode())
    _compare(directory, tail)
    trace = chrome_trace(tail.worst, tail.pid, tail.start_ns)
    write_whole(directory / Files.TAIL_TRACE, trace.encode())
    return tail, [*record_checks(recorded), *tail_checks(tail)]


def _compare(directory: Path, tail: Tail) -> None:
    """The frames of slow queries against those of median ones, where there are both."""
    from folding.frames import compare_folded

    sides = [
        ("median queries", directory / Files.TAIL_MEDIAN_FOLDED, tail.median.mean_us),
        ("slow queries", directory / Files.TAIL_FOLDED, tail.tail.mean_us),
    ]
    if all(path.stat().st_size for _, path, _ in sides):
        compare_folded(sides, directory / Files.TAIL_FRAMES)


def _result(run: Run) -> Tail:
    return read_tail(run.path(Files.TAIL))


def _figures(run: Run) -> dict[str, Interval]:
    """Where slow queries are the slowest 1 %, and no share of what another bound gave."""
    tail = _result(run)
    at = tail.threshold
    if at.asked or at.quantile != P99:
        return {}
    return {"p99": Interval(at.ns / 1e3, at.low_ns / 1e3, at.high_ns / 1e3, tail.counted)}


def _accounts(run: Run) -> list[Account]:
    tail = _result(run)
    slow = tail.tail.queries
    rows = {row.name: row.tail_us * slow for row in tail.rows}
    return [Account("slow", slow, rows)] if slow else []


def _section(run: Run) -> Section:
    return [*tail_section(_result(run)), _files_words(run.directory)]


def _worst(run: Run) -> Section:
    return [*worst_section(_result(run)), f"\nthe same for ui.perfetto.dev: {run.path(Files.TAIL_TRACE)}"]


def _files_words(directory: Path) -> str:
    return (
        f"where they waited and ran, ns a query: {directory / Files.TAIL_FOLDED} against {Files.TAIL_MEDIAN_FOLDED}"
        f"\nthe longest ten as timelines, for ui.perfetto.dev: {directory / Files.TAIL_TRACE}"
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--sample",
        type=within("--sample", int, 1, 1_000_000),
        default=1,
        metavar="N",
        help="follow one query in N (default: 1, each)",
    )
    add(
        "--threshold-us",
        type=within("--threshold-us", int, 1, 10**9),
        metavar="US",
        help="a query of so many us is a slow one (default: the slowest 1 %%)",
    )
    add("--keep", default="slow", choices=("slow", "all"), help="records of slow queries and some others, or of all")
    add(
        "--linger",
        type=within("--linger", float, 0.0, 3600.0),
        default=2.0,
        metavar="S",
        help="longest to wait for queries under way at the end (2)",
    )
    add("--force", action="store_true", help="follow them even where the traps take more than 5 %% of a CPU")
    add_queries(parser)
    add(
        "--dir",
        type=Path,
        metavar="DIR",
        help="keep records, stacks, tables and the timelines for Perfetto in DIR, which must not exist yet",
    )
    add("--ring-bytes", type=within("--ring-bytes", int, 1, 1 << 30), help=argparse.SUPPRESS)


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    from ebpf.tail import TailRequest, tail_observer

    directory = out.parent
    if arguments.dir is not None:
        directory = _made(arguments.dir.resolve())
        # Where `_show` finds it.
        out.with_name(Files.RECORDED).symlink_to(directory / Files.RECORDED)
    request = TailRequest(
        one_pid(arguments), arguments.sample, arguments.threshold_us, arguments.keep, arguments.linger,
        arguments.seconds, arguments.force, arguments.symbols, arguments.ring_bytes, arguments.kind,
        arguments.query_symbol, arguments.return_trampolines,
    )  # fmt: skip
    return tail_observer(request, children, directory)


def _made(directory: Path) -> Path:
    check_new(directory, f"--dir {directory}", "another name")
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise RefusedError(f"--dir {directory}: {error.strerror}", mend="--dir <a new directory>") from None
    return directory


def _show(path: Path) -> tuple[str, list[Check]]:
    """Writes what follows from the records beside them, and `tail.json` into `path`."""
    from workloads.registry import DEFAULT_ENGINE, rules_named

    directory = path.with_name(Files.RECORDED).resolve().parent
    tail, checks = analyse(directory, rules_named(DEFAULT_ENGINE))
    kept = []
    if directory != path.parent.resolve():
        write_json(path, tail)
        kept = [_files_words(directory)]
    return section_text([*tail_section(tail), *kept, "", *worst_section(tail)]), checks


def _panel(seen: Observed) -> Markup:
    from viz.page.tail import tail_panel

    return tail_panel(seen.the(Files.TAIL, Tail), seen.of(Files.TAIL_FRAMES, FrameDifferences))


INSTRUMENT = Instrument(
    "tail",
    order=9,
    observer=_observer,
    result=Files.RECORDED,
    reads={Files.TAIL: read_tail, Files.TAIL_FRAMES: read_frame_differences},
    analyse=_analyse,
    figures=_figures,
    accounts=_accounts,
    parts={
        "tail": Part("why the slowest queries are slow", Files.TAIL, _section),
        "worst": Part("the longest queries, one by one", Files.TAIL, _worst),
    },
    panels=[Panel("Slow queries", "tail", 8, [Files.TAIL], _panel)],
    alone=Alone(
        "records of single queries: where the time of the slowest goes, beside the median ones",
        _add_arguments,
        _alone,
        _show,
    ),
    names=True,
    one_process=True,
    time_share=4,
    times=3,
)
