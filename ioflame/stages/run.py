"""Everything that follows from what was recorded: a profile ends with it, `ioflame analyse` makes it again.

Replaces its own outputs only: stacks, categories, findings, and the profile, metrics and checks in `run.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from collectors.perf import recorded_events
from folding.stackfold import fold
from ground.errors import MeasurementError
from ground.results.categories import Categories, Operation
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.findings import Finding, Findings
from ground.results.ladder import read_ladder
from ground.results.metrics import metrics_of
from ground.results.off_cpu import read_off_cpu
from ground.results.profile import EventCheck, Folded, read_profile
from ground.results.record import ProfileFacts, RunRecord, Window
from ground.results.roles import WRITES_VIEW, query_role
from ground.results.run import Run, read_or_none
from ground.settings import FrontEnd, Setting, worded_for
from ground.system.atomic_files import write_json
from ground.text.progress import Reporter
from ioflame.analysis.categories import categories_of, category_files_of_run, operations_of
from ioflame.analysis.checks.run import run_checks
from ioflame.analysis.checks.stolen_time import stolen_checks, stolen_of
from ioflame.analysis.checks.target import rules_check
from ioflame.analysis.checks.tree import filter_proof, tree_proofs
from ioflame.analysis.checks.writes import write_proofs
from ioflame.analysis.findings import Waits, findings, read_rules
from ioflame.analysis.metric_intervals import intervals_of, weight_by_time
from ioflame.analysis.rounds import costs_of
from ioflame.analysis.wall_clock import serving_threads
from ioflame.stages.event_group import analyse_group
from ioflame.stages.jobs import analyse_jobs
from ioflame.stages.observed import analyse_observed, note_accounts
from ioflame.stages.queries import queries_each_second
from ioflame.stages.rules import rules_of
from workloads.engine import Engine
from workloads.registry import engine_named, service_advice, service_named

_OWNER, _LEAF = "owner", "leaf"
_CheckDetail = Literal["symbols", "totals"]


@dataclass(frozen=True)
class Analysed:
    """What followed from a run, for whoever draws it: its files hold the same.

    folded: the profile of all threads, None where there is none; views: its tables, none where it has no weight
    """

    folded: Folded | None
    views: Mapping[str, Categories]
    kinds: Sequence[Operation]
    findings: Sequence[Finding]


def analyse(run: Run, reporter: Reporter, meanwhile: Callable[[], None] | None = None) -> Analysed:
    """Folds, judges, categorises and computes; `present.run.write_pages` draws what it returns.

    meanwhile: called once the recording is folded: what can be waited for while that is done
    """
    with worded_for(FrontEnd.ATTACH if run.record.target is not None else None):
        return _analyse(run, reporter, meanwhile)


def analyse_so_far(run: Run) -> Analysed:
    """Of a run that goes on: its figures, profile and categories. What judges a run, its checks and findings, is of a
    whole one."""
    record = run.record
    with worded_for(FrontEnd.ATTACH if record.target is not None else None):
        _note_figures(record, run.series())
        assert record.profile is not None
        folded, *_ = _profile(run, record.profile, _engine(record), check=None)
        views = _write_categories(run, of_queries(run, folded))
        run.save()
        return Analysed(folded, views, [], [])


def _engine(record: RunRecord) -> Engine | None:
    """None of a target."""
    return engine_named(record.engine, client=record.options.get("client")) if record.target is None else None


def _note_figures(record: RunRecord, series: Sequence[Window]) -> list[Window]:
    """The plain windows, which they are of."""
    plain = [window for window in record.windows if window.kind == "plain"]
    record.metrics = metrics_of(record, plain)
    record.intervals = intervals_of(record, series)
    record.costs, record.host_change = costs_of(record)
    return plain


def _analyse(run: Run, reporter: Reporter, meanwhile: Callable[[], None] | None) -> Analysed:
    record, series = run.record, run.series()
    engine = _engine(record)
    plain = _note_figures(record, series)
    background: dict[str, int] = {}
    unread, folded = "", None
    checks: list[Check] = []
    if record.profile is not None and run.path(Files.PERF_DATA).exists():
        with reporter.stage("fold the recording and compare it with perf report", step="fold"):
            try:
                # A service has its CPU back sooner.
                check: _CheckDetail = "symbols" if record.target is None else "totals"
                folded, background, unread, checks = _profile(run, record.profile, engine, check)
            except MeasurementError as error:
                # The rest of the run is as good as it was.
                checks = [Check("perf", Verdict.FAILED, error.what, error.means, error.mend)]
    if meanwhile is not None:
        meanwhile()
    whole = folded
    if folded is not None:
        folded = of_queries(run, folded)
    views = _write_categories(run, folded) if folded is not None else {}
    kinds = _write_operations(run, folded, plain) if folded is not None else []
    categories = views.get(_OWNER)
    if whole is not None and categories is not None and record.profile is not None and record.profile.beside:
        checks += analyse_group(run, record.profile, whole.statistics, categories)
    with reporter.stage("account for what the other observers saw", step="account"):
        observed = analyse_observed(run)
    try:
        checks += analyse_jobs(run, whole)
    except MeasurementError as error:
        checks.append(Check("jobs", Verdict.FAILED, error.what, error.means, error.mend))
    note_accounts(run)
    proofs = _proofs(run, engine, categories) if engine is not None else []
    record.checks = [
        *run_checks(record, background, unread),
        *checks,
        *stolen_checks(record, series, categories, folded.slices if folded is not None else None),
        *proofs,
        *observed,
    ]
    if record.target is not None and categories is not None:
        record.checks += rules_check(categories, service_named(record.engine).general_rows)
    run.save()
    ladder = read_or_none(run.path(Files.LADDER), read_ladder)
    rules = read_rules(*rules_of(run).findings)
    advice = advice_of(engine, record.options) if engine is not None else service_advice(record.engine)
    found = findings(rules, record, folded, ladder, _waits(run), advice, series)
    write_json(run.path(Files.FINDINGS), Findings(found))
    return Analysed(whole, views, kinds, found)


def _proofs(run: Run, engine: Engine, categories: Categories | None) -> list[Check]:
    """What the engine's own words prove of a workload of ours."""
    record, log = run.record, run.path(engine.log_name)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    proofs = [
        *tree_proofs(record, engine.compacted_gb(text)),
        *write_proofs(record, queries_each_second(run, engine), engine.thread_totals(text), engine.about.counts_stalls),
    ]
    if record.expected.filters == "unused" and categories is not None:
        proofs.append(filter_proof(categories.rows, engine.about.filters))
    return proofs


def advice_of(engine: Engine, options: Mapping[str, str]) -> Mapping[str, str]:
    """The engine's words in what changes a finding, without what a run with these options has already."""
    own = options.get("configuration", "")
    configuration = engine.configurations().get(own)
    direct = configuration is not None and configuration.direct
    advice = engine.about.advice.items()
    return {name: words for name, words in advice if words != f"{{CONFIG={own}}}" and not (direct and name == "direct")}


def of_queries(run: Run, folded: Folded) -> Folded:
    """The profile of the threads that send queries; the whole one where nothing writes."""
    roles = run.record.roles
    return folded.of_threads(roles.get(query_role(roles), [])) if roles else folded


def _waits(run: Run) -> Waits | None:
    """The off-CPU window; None where there is none that can be read, which a check says."""
    off = read_or_none(run.path(Files.OFF_CPU), read_off_cpu)
    if not run.record.of_kind("offcpu") or off is None:
        return None
    stacks = read_or_none(run.path(Files.OFF_CPU_PROFILE), read_profile)
    return Waits(serving_threads(off, run.record), stacks, run.record.queries_in("offcpu") or 0.0)


def _profile(
    run: Run, facts: ProfileFacts, engine: Engine | None, check: _CheckDetail | None
) -> tuple[Folded, dict[str, int], str, list[Check]]:
    """Fills in `facts`; the profile, the weight of background threads by what they do, why perf report could not read
    the recording ("" where it did), and what else has to be said of it."""
    data = run.path(Files.PERF_DATA)
    events = recorded_events(data)
    if len(events) != 1 + len(facts.beside):
        raise MeasurementError(
            f"{data} holds {len(events)} events ({', '.join(events)}), and {1 + len(facts.beside)} were asked for"
        )
    writes = run.record.roles or any(window.counters.operations for window in run.record.windows)
    without = () if writes else (WRITES_VIEW,)
    pids = run.record.target.pids if run.record.target is not None else [run.record.pid]
    leader = events[0] if facts.beside else None
    facts.beside = events[1:]
    rules = rules_of(run).categories
    folded = fold(data, run.directory, pids, rules=rules, check=check, event=leader, without=without)
    stats = folded.statistics
    checks: list[Check] = []
    unread = ""
    if (stats.event or "").partition(":")[0] != facts.event.partition(":")[0]:
        checks.append(
            Check(
                "event",
                Verdict.WARN,
                f"{facts.event} was asked for, perf recorded {stats.event}",
                f"weights are {stats.unit}; there is no such hardware counter here",
                Setting.EVENT.to("auto"),
            )
        )
    facts.event, facts.unit = stats.event or facts.event, stats.unit
    facts.samples, facts.weight = stats.samples, stats.weight
    facts.incomplete_weight, facts.unresolved_weight = stats.incomplete_weight, stats.unresolved_weight
    facts.chains_end = stats.chains_end(3)
    facts.cut_by_size_weight, facts.cut_by_page_weight = stats.cut_copies.by_size, stats.cut_copies.by_page
    facts.largest_sample_weight = stats.largest_sample_weight
    if folded.check is None:
        # Linux 6.18 writes records that perf 6.1 gives up on where BPF programs come and go beside two recordings.
        target = run.record.target
        facts.report_weight = None
        unread = "its words may hold names" if target is not None and target.redacted else folded.unchecked or ""
    elif len(folded.check.events) != 1:
        facts.report_weight, unread = None, f"perf report names {len(folded.check.events)} events, and not one"
    else:
        facts.report_weight, facts.lost_samples = folded.check.events[0].reported, folded.check.lost_samples
        if check == "symbols":
            checks.append(_self_weight_check(folded.check.events[0]))
    facts.coverage, facts.ghz = weight_by_time(facts, run.record.windows)
    # Of a target they are rows of the table.
    threads = engine.about.background_threads if engine is not None else {}
    background = dict.fromkeys(threads.values(), 0)
    # Where the workload writes they are rows of their own, and not in the way.
    for name, weight in folded.weight_by_comm().items() if run.record.expected.tree == "unchanged" else ():
        role = next((role for prefix, role in threads.items() if name.startswith(prefix)), None)
        if role is not None:
            background[role] += weight
    return folded, background, unread, checks


def _write_categories(run: Run, folded: Folded) -> dict[str, Categories]:
    """The tables of all views, by name; none where there is no weight."""
    tables = category_files_of_run(folded, folded.views, run.record)
    for view, table in tables.items():
        write_json(run.path(Files.of_view(view)), table)
    return {view: categories_of(table) for view, table in tables.items()} if folded.statistics.weight else {}


def _write_operations(run: Run, folded: Folded, plain: Sequence[Window]) -> list[Operation]:
    assert run.record.profile is not None
    found = operations_of(folded, plain, run.record.profile.mode, stolen_of(run.record))
    if found:
        write_json(run.path(Files.OPERATIONS), found)
    return found


def _self_weight_check(comparison: EventCheck) -> Check:
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
