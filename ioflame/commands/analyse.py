"""`ioflame analyse RUN`: everything that follows from what was recorded, made again from the run directory.

A profile ends with the same stage. It replaces its own outputs only: stacks, categories, flame graph, summary, and the
profile, metrics and checks in `run.json`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from collectors.perf import recorded_events
from folding.stackfold import fold
from ioflame.categories import Categories, read_categories
from ioflame.checks import Check, Verdict, worst
from ioflame.commands.observers import show_observed
from ioflame.commands.report import write_report
from ioflame.costs import observer_costs
from ioflame.errors import EXIT_CHECK_FAILED, EXIT_OK, MeasurementError
from ioflame.files import Files
from ioflame.host import describe_host
from ioflame.metrics import cpu_profiled, metric_intervals, weight_by_time, window_metrics
from ioflame.progress import Reporter, shown_path, terminal_width
from ioflame.proofs import bloom_proof, tree_proofs
from ioflame.record import ProfileFacts
from ioflame.results.profile import Comparison, Folded
from ioflame.run import Run, open_run
from ioflame.stolen import stolen_checks
from ioflame.verdicts import run_verdicts
from ioflame.whole import write_whole
from viz.flamegraph import FlamegraphOptions, write_flamegraph
from viz.frames import by_name, stacks_of
from viz.scales import scaled_weight
from viz.summary import render_summary

__all__ = ("add_parser", "analyse", "analyse_command", "conclude", "run")

_OWNER = "owner"
# The engine's own threads for compaction and flush (set by rocksdb with pthread_setname_np).
_BACKGROUND = ("rocksdb:low", "rocksdb:high", "rocksdb:bott")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("analyse", help="fold, check and draw a recorded run again", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="RUN", help="a run directory, such as runs/latest")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, only results and warnings")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = open_run(arguments.directory.resolve())
    analyse(found, Reporter(quiet=arguments.quiet))
    return conclude(found)


def analyse(run: Run, reporter: Reporter, meanwhile: Callable[[], None] | None = None) -> None:
    """Folds, judges, categorises, computes and draws.

    meanwhile: called once the recording is folded: what can be waited for while that is done
    """
    record = run.record
    plain = [window for window in record.windows if window.kind == "plain"]
    record.metrics = window_metrics(plain, record.threads)
    record.intervals = metric_intervals(run.series(), record.threads)
    record.costs = observer_costs(record.windows, run.series())
    background = 0
    checks: list[Check] = []
    folded = None
    if record.profile is not None and run.path(Files.PERF_DATA).exists():
        with reporter.stage("fold the recording and compare it with perf report"):
            try:
                folded, background, checks = _profile(run, record.profile)
            except MeasurementError as error:
                # The rest of the run is as good as it was.
                checks = [Check("perf", Verdict.FAILED, error.what, error.means, error.mend)]
    if meanwhile is not None:
        meanwhile()
    categories = None
    if folded is not None and folded.statistics.weight:
        categories = read_categories(run.directory, _OWNER)
    with reporter.stage("account for what the other observers saw"):
        observed = show_observed(run)
    run.observed = [shown.text for shown in observed]
    log = run.path(Files.ENGINE_LOG)
    proofs = list(tree_proofs(record, log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""))
    if record.expected.filters == "unused" and categories is not None:
        proofs.append(bloom_proof(categories.rows))
    record.checks = [
        *run_verdicts(record, background),
        *checks,
        *stolen_checks(record, run.series(), categories, folded.slices if folded is not None else None),
        *proofs,
        *(c for shown in observed for c in shown.checks),
    ]
    run.save()
    with reporter.stage("draw the flame graph and the report"):
        if folded is not None and categories is not None:
            _draw(run, folded, categories)
        write_whole(
            run.path(Files.SUMMARY), render_summary(record, categories, run.observed).encode("utf-8", "replace")
        )
        write_report(run.directory, run.path(Files.REPORT))


def _profile(run: Run, facts: ProfileFacts) -> tuple[Folded, int, list[Check]]:
    """Fills in `facts`; the profile, the weight of background threads, and what has to be said of the recording."""
    data = run.path(Files.PERF_DATA)
    events = recorded_events(data)
    if len(events) != 1:
        raise MeasurementError(f"{data} holds {len(events)} events ({', '.join(events)}); a profile has one")
    folded = fold(data, run.directory, run.record.pid, rules=run.record.engine, check=True)
    stats = folded.statistics
    checks: list[Check] = []
    if (stats.event or "").partition(":")[0] != facts.event.partition(":")[0]:
        checks.append(
            Check(
                "event",
                Verdict.WARN,
                f"{facts.event} was asked for, perf recorded {stats.event}",
                f"weights are {stats.unit}; there is no such hardware counter here",
                "EVENT=auto",
            )
        )
    facts.event, facts.unit = stats.event or facts.event, stats.unit
    facts.samples, facts.weight = stats.samples, stats.weight
    facts.incomplete_weight, facts.unresolved_weight = stats.incomplete_weight, stats.unresolved_weight
    facts.cut_by_size_weight, facts.cut_by_page_weight = stats.cut_copies.by_size, stats.cut_copies.by_page
    facts.largest_sample_weight = stats.largest_sample_weight
    if folded.check is None or len(folded.check.events) != 1:
        raise MeasurementError(f"{data}: perf report tells no event to compare with")
    facts.report_weight, facts.lost_samples = folded.check.events[0].reported, folded.check.lost_samples
    checks.append(_self_weight_check(folded.check.events[0]))
    facts.coverage, facts.ghz = weight_by_time(facts, run.record.windows)
    background = sum(weight for name, weight in folded.weight_by_comm().items() if name.startswith(_BACKGROUND))
    return folded, background, checks


def _self_weight_check(comparison: Comparison) -> Check:
    differences = comparison.differences
    if not differences:
        return Check("self weight by symbol", Verdict.OK, f"equal to perf report for {comparison.symbols:,} symbols")
    named = ", ".join(f"{d.symbol} {d.folded - d.reported:+,}" for d in differences[:3])
    return Check(
        "self weight by symbol",
        Verdict.NOTE,
        f"{len(differences)} symbols differ from perf report: {named}",
        f"{differences[0].reason}; the totals decide. All of them: {Files.FOLD_CHECK}",
    )


def _draw(run: Run, folded: Folded, categories: Categories) -> None:
    record, profile = run.record, run.record.profile
    assert profile is not None
    failed = [f"{c.name}: {c.value}; {c.means}" for c in record.checks if c.verdict is Verdict.FAILED]
    engine = f"{record.engine} {record.tools.get('engine', '')}".strip()
    options = FlamegraphOptions(
        title=f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}, {engine}",
        subtitle=f"{profile.event}, {scaled_weight(profile.weight, profile.unit)} in {profile.samples:,} samples, "
        f"{profile.callgraph} call graphs, "
        f"{describe_host(record.host)}, {record.created}",
        unit=profile.unit,
        warnings=failed,
        categories=[(row.name, row.label) for row in categories.rows],
        us_per_query=cpu_profiled(record.metrics, profile.mode)[0],
    )
    write_flamegraph(by_name(stacks_of(folded, _OWNER)), options, run.path(Files.FLAMEGRAPH))


def conclude(run: Run) -> int:
    """Prints the summary, the paths and the next step; the exit code the run deserves."""
    record = run.record
    categories = read_categories(run.directory) if run.path(Files.CATEGORIES).exists() else None
    width = terminal_width(sys.stdout) or 100
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(render_summary(record, categories, run.observed, width, unicode))
    print(f"run:          {shown_path(run.directory)}")
    outputs = {
        "report:": Files.REPORT,
        "flame graph:": Files.FLAMEGRAPH,
        "off-CPU:": Files.OFF_CPU_FLAMEGRAPH,
        "stacks:": Files.FOLDED,
        "summary:": Files.SUMMARY,
    }
    for what, name in outputs.items():
        if run.path(name).exists():
            print(f"{what:<13} {shown_path(run.path(name))}")
    if run.path(Files.FLAMEGRAPH).exists():
        print(f"next:         open {shown_path(run.path(Files.REPORT))} in a browser, or the flame graph alone")
    elif run.path(Files.PERF_DATA).exists():
        print(f"next:         {analyse_command(run)}   (folds what was recorded)")
    return EXIT_CHECK_FAILED if record.missing or worst(record.checks) is Verdict.FAILED else EXIT_OK


def analyse_command(run: Run) -> str:
    """The command that makes everything after the recording again, as this user can type it here."""
    called = Path(sys.argv[0])
    own = called.name == "ioflame" and shutil.which("ioflame") is None
    return shlex.join([shown_path(called.absolute()) if own else "ioflame", "analyse", shown_path(run.directory)])
