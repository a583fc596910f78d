"""One workload process through its windows: warm-up, plain, observed, plain ...; everything it counted is kept."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from collectors.counters import device_of
from collectors.perf import Plan, record_for, with_dwarf
from collectors.queries import QueryReport
from collectors.schedule import REPORT_LAG_SECONDS, Schedule
from folding.stackfold import fold
from ioflame.commands.analyse import analyse
from ioflame.commands.job import Job, describe_database, describe_tree
from ioflame.commands.observers import Watched, observer_named
from ioflame.cpus import held_on
from ioflame.errors import HostError, IoflameError, MeasurementError
from ioflame.files import Files
from ioflame.observer import QUIET_SECONDS
from ioflame.process import Child, Children, captures
from ioflame.progress import Reporter
from ioflame.record import ANALYSIS, Command, RunRecord, SeedRange, Unobserved
from ioflame.run import Run
from workloads.database import Database
from workloads.engine import StepParameters

__all__ = ("keep", "measure")

_TRIAL_SECONDS = 1.0
# The folding of perf's trial, and each observer's start and end, beyond the windows; on a busy host they take seconds.
_SLACK_SECONDS = 4
_OBSERVER_SLACK_SECONDS = 6
# More than this share of weight in stacks that do not reach a thread's start, and frame pointers are not good enough.
_INCOMPLETE_LIMIT = 0.10


def measure(
    job: Job, database: Database, run: Run, children: Children, reporter: Reporter, *, strict: bool = True
) -> None:
    """Runs the job's workload on a database that is ready, and analyses what was recorded, all into `run`.

    strict: refuse a tree of other levels than the workload is defined for; otherwise the proofs say so
    The caller stops `children`; after an exception `keep` puts what was measured until then into the record.
    """
    record = run.record
    try:
        tree = database.settle(children, reporter, run.path("settle.log"), job.sizing.cache_size)
        record.database = describe_database(job, tree)
        if strict:
            _refuse_wrong_tree(record, len(tree.levels))
        seeds = database.take_seeds(job.options.workload, job.options.threads)
    finally:
        record.seeds = list(database.seeds)
        run.save()
    if job.options.allow_host_changes and not job.configuration.direct:
        _drop_page_cache()
        record.database["page_cache"] = "dropped before the workload started"
    lifetime = _lifetime(job)
    child = _start(job, lifetime, run, children, seeds)
    report = QueryReport(run.path(Files.ENGINE_REPORT))
    schedule = Schedule(child, device_of(job.db_dir), report, lifetime, run.path(Files.ENGINE_LOG), reporter)
    try:
        _run_windows(job, schedule, child, run, children, reporter)
    finally:
        record.windows = schedule.windows()
        record.report_start_ns = report.started_ns
        run.save_series(schedule.series())
        run.save()

    def end() -> None:
        _end(job, child, run, reporter)
        after = database.tree(children, reporter, run.path("levels.log"), job.sizing.cache_size)
        record.database["levels_after"] = describe_tree(after)
        record.seeds = list(database.seeds)
        run.save()

    # Nothing is measured any more: the folding may share the CPUs with the engine's last seconds.
    with captures() as helpers:
        analyse(run, reporter, meanwhile=end)
    record.commands = _commands(children) + [
        Command(ANALYSIS, one.argv, one.pid, one.started, one.ended, f"exit code {one.returncode}") for one in helpers
    ]
    run.save()


def _drop_page_cache() -> None:
    """Writes back and drops what the kernel keeps of files: it comes back by itself, so there is nothing to restore."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"the page cache cannot be dropped: {error.strerror}",
            means="the run would start with a warm cache of unknown content",
            mend="run as root, or leave --allow-host-changes out",
        ) from None


def _refuse_wrong_tree(record: RunRecord, levels: int) -> None:
    wanted = record.expected.levels
    if {"any": False, "several": levels < 2, "one": levels != 1}[wanted]:
        raise MeasurementError(
            f"{record.workload} reads a tree of {wanted} non-empty level; this one has {levels}",
            means="its figures would be those of another workload",
            mend="make io-efficiency   (it compacts the tree first), or WORKLOAD=readrandom",
        )


def keep(run: Run, children: Children, why: str) -> None:
    """Puts into the record of a run that ended early what was started, and why something is missing."""
    run.record.commands = _commands(children)
    run.record.missing = [f"{what} ({why.splitlines()[0]})" for what in run.record.missing]
    run.save()


def _commands(children: Children) -> list[Command]:
    return [Command(c.name, c.argv, c.pid, c.started, c.ended, c.describe_end()) for c in children]


def _end(job: Job, child: Child, run: Run, reporter: Reporter) -> None:
    """Lets the engine end by itself, for its closing line: how many of the keys it found."""
    record = run.record
    with reporter.stage("the engine comes to its own end"):
        # What a shorter warm-up has left of its time; one that stands still is not waited for.
        code = child.wait(job.scale.warmup + 60, quiet=QUIET_SECONDS)
        if code is None:
            child.stop()
    log = run.path(Files.ENGINE_LOG)
    result = job.engine.parse_result(log.read_text(encoding="utf-8", errors="replace"), job.options.workload)
    if result is not None:
        record.engine_result = {n: float(v) for n, v in vars(result).items() if v is not None}
    record.missing.clear()
    run.save()


def _lifetime(job: Job) -> int:
    """Seconds that the engine is asked to send queries for: all windows, and what is between them."""
    observers = len(job.collect)
    windows = job.scale.warmup + (2 * observers + 1) * job.duration + REPORT_LAG_SECONDS
    return int(windows) + _SLACK_SECONDS + observers * _OBSERVER_SLACK_SECONDS


def _start(job: Job, lifetime: int, run: Run, children: Children, seeds: SeedRange) -> Child:
    parameters = StepParameters(
        shape=job.sizing.shape,
        db_dir=job.db_dir,
        threads=job.options.threads,
        seed=seeds.first,
        cache_size=job.sizing.cache_size,
        duration=lifetime,
        report_file=run.path(Files.ENGINE_REPORT),
        flags=job.configuration.flags,
        known_flags=job.build.flags,
        cache_type=job.options.cache_type,
    )
    argv = held_on(job.options.cpus, job.engine.command(job.build.path, job.options.workload, parameters))
    return children.start(f"db_bench {job.options.workload}", argv, stdout=run.path(Files.ENGINE_LOG))


def _run_windows(job: Job, schedule: Schedule, child: Child, run: Run, children: Children, reporter: Reporter) -> None:
    plan = job.plan
    missing = run.record.missing

    def trial() -> None:
        nonlocal plan
        if job.options.callgraph == "auto":
            plan = _choose_callgraph(plan, pid, run, children, reporter)

    missing[:] = [f"warm-up, plain and {', '.join(job.collect)} windows"]
    run.record.pid = pid = schedule.wait_until_reading()
    # A cache larger than the data is never filled twice over: only the rate of queries can tell.
    to_fill = 0 if job.configuration.cached_by_engine else job.sizing.cache_size
    schedule.warm_up(job.scale.warmup, to_fill, trial)
    missing[:] = [f"plain and {', '.join(job.collect)} windows"]
    schedule.plain(job.duration)
    for place, name in enumerate(job.collect):
        later = [f"the {other} window" for other in job.collect[place + 1 :]]
        missing[:] = [f"the {name} window", *later]
        _observe(name, Watched(job, run, children, child, pid, plan), schedule)
        missing[:] = [f"the plain window after the {name} window", *later]
        schedule.plain(job.duration)
    missing[:] = ["the engine's closing line: how many keys it found"]
    schedule.finish()


def _observe(name: str, watched: Watched, schedule: Schedule) -> None:
    """The window of one observer. Where it fails and the workload does not, the rest of the run goes on without it."""
    try:
        schedule.observed(observer_named(name, watched), watched.job.duration)
    except IoflameError as error:
        if name == "perf" or not watched.child.running:
            raise
        asked = watched.job.options.collect is not None
        watched.run.record.unobserved.append(Unobserved(name, error.what, error.mend, asked))


def _choose_callgraph(plan: Plan, pid: int, run: Run, children: Children, reporter: Reporter) -> Plan:
    """Frame pointers where a trial shows that they reach the thread's start, DWARF otherwise."""
    trial = run.path("trial")
    trial.mkdir()
    record_for(children, plan, pid, trial / Files.PERF_DATA, _TRIAL_SECONDS, reporter)
    stats = fold(trial / Files.PERF_DATA, trial, pid).statistics
    share = stats.incomplete_weight / stats.weight if stats.weight else 0.0
    seen = f"a trial of {_TRIAL_SECONDS:.0f} s left {share:.1%} of the weight in incomplete stacks with frame pointers"
    if share > _INCOMPLETE_LIMIT:
        return with_dwarf(plan, f"{seen}: DWARF unwinding instead")
    return replace(plan, why=(*plan.why, seen))
