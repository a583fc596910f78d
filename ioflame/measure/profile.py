"""One workload process through its windows: warm-up, plain, observed, plain ...; everything it counted is kept.

An arm of a comparison is such a `Workload` too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from collectors.counters import Roles, device_of
from collectors.perf import Plan, record_for
from collectors.queries import QueryReport, QueryReportWithWriter
from collectors.schedule import Schedule
from folding.stackfold import fold
from ground.errors import IoflameError, MeasurementError
from ground.results.files import Files
from ground.results.profile import FoldStats
from ground.results.record import ANALYSIS, Command, RunRecord, Unobserved
from ground.results.roles import READER, WRITER, roles_of_threads
from ground.results.run import Run
from ground.settings import Setting
from ground.system.limits import limited_memory
from ground.system.observer import QUIET_SECONDS, Observer
from ground.system.page_cache import drop_files, drop_page_cache, keep_files
from ground.system.process import Children, captures
from ground.text.progress import Reporter
from ground.text.titles import title_of
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import ObserverContext
from ioflame.measure.call_graphs import TRIAL_SECONDS, choose_call_graph
from ioflame.measure.first_look import first_look
from ioflame.measure.job import Job, describe_database, describe_tree
from ioflame.measure.jobs import clock_pair, note_jobs
from ioflame.measure.planned_steps import steps_of_profile
from ioflame.measure.recorded import commands_of, recorded
from ioflame.measure.turns import Turns
from ioflame.measure.windows import PLAIN, run_windows
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.artifact import loaded_libraries
from workloads.database import Database
from workloads.engine import Tree

# A trial of a second with its folding.
_TRIAL_TAKES_SECONDS = 3.0


def database_of(job: Job) -> Database:
    """The job's database; UsageError where its directory holds another, or a half of one."""
    database = job.database()
    database.check()
    return database


def load_and_measure(job: Job, database: Database, run: Run, reporter: Reporter) -> None:
    """Loads the database where it is not there yet, measures, and lets `latest` point to the run."""
    with recorded(run, Children()) as children:
        creates, loaded = job.engine.step(job.options.workload).creates, database.check()
        reporter.plan(steps_of_profile(job, loaded=loaded))
        if not loaded and not creates:
            database.load(children, reporter, run.path("load.log"))
        measure(job, database, run, children, reporter, looks=not reporter.quiet)
    run.point_latest()


def measure(
    job: Job, database: Database, run: Run, children: Children, reporter: Reporter, *, strict: bool = True,
    looks: bool = False,
) -> None:  # fmt: skip
    """Runs the job's workload on a database that is ready, and analyses what was recorded, all into `run`.

    strict: refuse a tree of other levels than the workload is defined for; otherwise the proofs say so
    looks:    somebody looks on: a first look follows perf's first turn
    children: of `recorded`
    """
    record = run.record
    step = job.engine.step(job.options.workload)
    try:
        tree = Tree([], 0) if step.creates else database.settle(children, reporter, run.path("settle.log"))
        record.database = describe_database(job, tree)
        if strict and not step.creates:
            _refuse_wrong_tree(job, record, len(tree.levels))
        seeds = database.take_seeds(job.options.workload, job.options.threads)
    finally:
        record.seeds = list(database.seeds)
        run.save()
    if job.options.allow_host_changes and not job.configuration.direct:
        drop_page_cache()
        record.database.page_cache = "dropped before the workload started"
    database.begin(job.options.workload)
    workload = Workload(job, run, children, reporter, looks=looks)
    argv = job.command(seeds.first, run.path(job.engine.report_name), job.asked_seconds)
    if job.options.memory_limit is not None:
        argv = [*children.within(limited_memory(job.options.memory_limit)), *argv]
        record.database.memory_limit = job.options.memory_limit
        # What another group has read would be found there, beyond any limit.
        drop_files(job.db_dir.glob(job.engine.about.data_files))
    elif job.configuration.cached_by_engine and not job.configuration.direct and not job.options.allow_host_changes:
        # The engine's cache is then filled from memory: random reads of a cold disk would take as long as a warm-up.
        keep_files(job.db_dir.glob(job.engine.about.data_files))
    workload.start(argv, job.lifetime)
    try:
        _measure_windows(workload)
    finally:
        workload.keep()

    def end() -> None:
        _end(workload, reporter)
        if step.changing:
            note_jobs(run, job.engine, job.db_dir, workload.began)
        record.database.levels_after = describe_tree(_tree_after(job, database, run, children, reporter))
        record.seeds = list(database.seeds)
        run.save()

    # Nothing is measured any more: the folding may share the CPUs with the engine's last seconds.
    with captures() as helpers:
        write_pages(run, analyse(run, reporter, meanwhile=end), reporter)
    record.commands = commands_of(children) + [
        Command(ANALYSIS, one.argv, one.pid, one.started, one.ended, f"exit code {one.returncode}") for one in helpers
    ]
    run.save()


def _tree_after(job: Job, database: Database, run: Run, children: Children, reporter: Reporter) -> Tree:
    """The tree as the workload left it; where it writes, what is left to compact is worked off first, and timed."""
    step, writes = job.engine.step(job.options.workload), run.record.writes
    log = run.path(job.engine.log_name)
    _note_windows(job, run)
    if not step.changing:
        return database.tree(children, reporter, run.path("levels.log"))
    writes |= job.engine.statistics(log.read_text(encoding="utf-8", errors="replace"))
    tree = database.tree(children, reporter, run.path("levels.log"))
    if step.creates:
        # Nobody reads it again, and the next run makes it anew.
        database.remove()
        return tree
    begun = time.monotonic()
    log = run.path("debt.log")
    text = database.apply("waitforcompaction", 1, children, reporter, log)
    writes["debt_seconds"] = time.monotonic() - begun
    if (written := job.engine.compacted_gb(text)) is not None:
        writes["debt_gb"] = written
    return tree


def _note_windows(job: Job, run: Run) -> None:
    """What the engine's own log says of each window; the next process on the database begins another log."""
    own = job.db_dir / job.engine.own_log
    if not job.engine.own_log or not own.is_file():
        return
    ahead = time.time() - time.monotonic()
    edges = [(window.start_ns / 1e9 + ahead, window.end_ns / 1e9 + ahead) for window in run.record.windows]
    stated = job.engine.in_windows(own.read_text(encoding="utf-8", errors="replace"), edges)
    for window, figures in zip(run.record.windows, stated, strict=True):
        window.engine = figures


def _refuse_wrong_tree(job: Job, record: RunRecord, levels: int) -> None:
    wanted = record.expected.levels
    if {"any": False, "several": levels < 2, "one": levels != 1}[wanted]:
        raise MeasurementError(
            f"{record.workload} reads a tree of {wanted} non-empty level; this one has {levels}",
            means="its figures would be those of another workload",
            mend="make io-efficiency   (it compacts the tree first), or "
            + Setting.WORKLOAD.to(
                "|".join(name for name, step in job.engine.workloads().items() if step.levels == "any")
            ),
        )


def _end(workload: Workload, reporter: Reporter) -> None:
    """Lets the engine end with its closing line: how many of the keys it found."""
    job, run, child = workload.job, workload.run, workload.child
    # The time that a shorter warm-up has left; a client that uses no CPU is not waited for.
    grace = job.scale.warmup + 60
    with reporter.stage(f"wait for {job.engine.about.client} to exit", step="exit"):
        if job.engine.by_our_client:
            child.stop(grace, quiet=QUIET_SECONDS)
        elif child.wait(grace, quiet=QUIET_SECONDS) is None:
            child.stop()
    log = run.path(job.engine.log_name)
    result = job.engine.parse_result(log.read_text(encoding="utf-8", errors="replace"), job.options.workload)
    if result is not None:
        run.record.engine_result = {n: float(v) for n, v in vars(result).items() if v is not None}
    run.record.missing.clear()
    run.save()


def _measure_windows(workload: Workload) -> None:
    job, record = workload.job, workload.run.record
    for name in job.collect:
        refused = INSTRUMENTS[name].not_writing
        if name not in job.watching and refused is not None:
            record.unobserved.append(Unobserved(name, refused.why, refused.mend, job.is_asked(name)))
    record.missing[:] = [f"warm-up, baseline and {', '.join(map(title_of, job.watching))} windows"]
    workload.wait_until_reading()
    windows = workload.watch_in_turns()
    run_windows(workload, windows, _windows_of(job, windows))
    record.missing[:] = ["the engine's closing line: how many keys it found"]
    workload.schedule.finish()


def _windows_of(job: Job, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Of those that take no turns: a window each, between plain ones."""
    for name in names:
        yield PLAIN, job.duration
        yield name, job.seconds_of(name)
    if names or not job.watching:
        # The last one has what others left of the time.
        yield PLAIN, math.inf


class Workload:
    """The engine's client as it runs (a `WindowTarget`). Its end within a window is an error.

    run:      gets what is measured; children: that it is started in
    schedule: its windows; began: clocks before the first
    """

    ended = False

    def __init__(self, job: Job, run: Run, children: Children, reporter: Reporter, *, looks: bool = False) -> None:
        self._looks, self._looked_seconds = looks, 0.0
        self.job, self.run = job, run
        self._children, self._reporter = children, reporter
        self._plan = job.plan

    def start(self, argv: Sequence[str], lifetime: float, environment: Mapping[str, str] | None = None) -> None:
        """lifetime: seconds of queries that `argv` asks for, stopped time included"""
        job, run = self.job, self.run
        self.began = clock_pair()
        log, report = run.path(job.engine.log_name), run.path(job.engine.report_name)
        name = f"{job.engine.about.client} {job.options.workload}"
        self.child = self._children.start(name, argv, stdout=log, environment=environment)
        self._queries = _query_report(job, report, log)
        self.schedule = Schedule(
            self.child, device_of(job.db_dir), self._queries, lifetime, log, self._reporter, _roles_of(job)
        )

    def wait_until_reading(self) -> None:
        """Returns when it sends queries."""
        record = self.run.record
        record.pid = self.schedule.wait_until_reading()
        record.tools |= loaded_libraries(record.pid, self.job.build)

    def warm_up(self, waited: float = 0.0) -> None:
        """Until its cache is full and QPS is flat, or the scale's bound; then a trial of how its stacks are recorded,
        where that is not given. waited: s of the bound that are over"""
        job = self.job

        def trial() -> None:
            if "perf" in job.collect and job.options.callgraph == "auto":
                self._plan = choose_call_graph(self._plan, self._tried, self._is_time)

        # A cache larger than the data is never filled twice over: only the rate of queries can tell.
        to_fill = 0 if job.configuration.cached_by_engine else job.sizing.cache_size
        self.schedule.warm_up(max(job.scale.warmup - waited, 0.0), to_fill, trial)

    def watch_in_turns(self) -> list[str]:
        """Warms up, then watches in rounds; the instruments that want a window of their own."""
        job = self.job
        turns = Turns(self._failed, self._reporter)
        if self._looks:
            turns.first["perf"] = self._look
        windows = job.in_windows
        try:
            # While the cache fills nothing is measured yet. perf waits for the trial, which says how it records.
            left, others = self.schedule.seconds_left, [name for name in job.in_turns if name != "perf"]
            if others:
                with self._reporter.stage(f"attach {', '.join(others)}", step="attach"):
                    for name in others:
                        self._attach(name, turns, windows)
            self.warm_up(waited=left - self.schedule.seconds_left)
            if "perf" in job.in_turns:
                self._attach("perf", turns, windows)
            if turns.observers:
                ours = job.engine.by_our_client
                longest, reserved = job.rounds.lasting(turns.observers, 1), job.seconds_of_windows(windows)
                left = self.schedule.seconds_left

                def another(done: int) -> bool:
                    """As many as were asked for, and what a short warm-up left time for; fewer where it was long.

                    On a busy host a round takes longer than its turns; the first one holds the first look.
                    """
                    nonlocal longest, left
                    before, left = left, self.schedule.seconds_left
                    longest = max(longest, before - left - self._looked_seconds)
                    self._looked_seconds = 0.0
                    self.run.record.missing[:] = [
                        f"rounds after the first {done}"
                        if done
                        else f"rounds of {', '.join(map(title_of, turns.observers))}",
                        *(f"the {title_of(name)} window" for name in windows),
                    ]
                    self.keep()
                    if ours and done >= job.rounds.number:
                        return False
                    return not done or left - reserved >= longest

                lasting = 0.0 if ours else self.schedule.seconds_left - reserved
                turns.run(self.schedule, job.rounds, self.run.record.seeds[-1].first, another, lasting)
        finally:
            turns.detach()
        return [name for name in job.watching if name in windows]

    def _look(self, perf: Observer) -> None:
        left = self.schedule.seconds_left
        self.keep()
        first_look(self.run, perf, self._reporter)
        self._looked_seconds = left - self.schedule.seconds_left

    def _attach(self, name: str, turns: Turns, windows: list[str]) -> None:
        """Where this host's way of it takes no turns, it gets a window."""
        context = replace(self._context(self.job.duration), turns=True)
        if not turns.attach(name, partial(INSTRUMENTS[name].observer, context)):
            windows.append(name)

    def plain(self, seconds: float) -> None:
        """A window with nothing attached; of infinite length: until it sends no more queries."""
        if math.isfinite(seconds):
            self.schedule.plain(seconds)
        else:
            self.schedule.last_plain()

    def observe(self, name: str, seconds: float, *, optional: bool = False) -> None:
        """A window of this instrument. If it fails and the workload does not, the others continue.

        optional: they are worth something even without an instrument that every profile needs
        """
        self.keep()  # the recording may fill the disk
        try:
            self.schedule.observed(INSTRUMENTS[name].observer(self._context(seconds)), seconds)
        except IoflameError as error:
            self._failed(name, error, optional=optional)

    def _context(self, seconds: float) -> ObserverContext:
        return replace(self.job.observer_context(self.run, self._children, self._plan), seconds=seconds)

    def _failed(self, name: str, error: IoflameError, *, optional: bool = False) -> None:
        """Into the record; raised again where the workload failed, or it is one that every profile needs."""
        if not self.child.running or (INSTRUMENTS[name].needed and not optional):
            raise error
        asked = optional or self.job.is_asked(name)
        self.run.record.unobserved.append(Unobserved(name, error.what, error.mend, asked))

    def keep(self) -> None:
        """Keeps in the run what was measured so far."""
        record = self.run.record
        record.roles = self.schedule.threads_by_role()
        record.report_start_ns = self._queries.started_ns
        self.run.save_windows(self.schedule.windows(), self.schedule.series())

    def _is_time(self) -> bool:
        """For another trial: a round at least has to follow, or the windows."""
        job = self.job
        least = job.rounds.lasting(job.in_turns, 1) + job.seconds_of_windows(job.in_windows)
        return job.engine.by_our_client or self.schedule.seconds_left - least > _TRIAL_TAKES_SECONDS

    def _tried(self, plan: Plan) -> FoldStats:
        """What a trial recorded; the recording itself is not kept: copied stacks are 60 MB a second."""
        place, pid = self.run.path("trial") / plan.callgraph, self.run.record.pid
        place.mkdir(parents=True)
        recording = place / Files.PERF_DATA
        record_for(self._children, replace(plan, beside=()), pid, recording, TRIAL_SECONDS, self._reporter)
        stats = fold(recording, place, [pid]).statistics
        recording.unlink()
        return stats


def _query_report(job: Job, report: Path, log: Path) -> QueryReport:
    """What counts the queries of a job; the operations of a writer beside them are none."""
    engine = job.engine
    if not engine.step(job.options.workload).write_rate or engine.by_our_client:
        return QueryReport(report, engine.parse_report)

    def writer() -> list[tuple[float, int]]:
        return engine.thread_totals(log.read_text(encoding="utf-8", errors="replace")).get(0, [])

    return QueryReportWithWriter(report, engine.parse_report, writer)


def _roles_of(job: Job) -> Roles | None:
    """How the roles of its threads are known; None where nothing writes and all CPU is the queries'."""
    step = job.engine.step(job.options.workload)
    if not step.changing:
        return None
    if job.engine.by_our_client:
        named = {**job.engine.about.background_threads, "reader ": READER, "writer ": WRITER}
        return roles_of_threads(named, 0, with_writer=False, writes=step.writes)
    return roles_of_threads(
        job.engine.about.background_threads, job.options.threads, with_writer=bool(step.write_rate), writes=step.writes
    )
