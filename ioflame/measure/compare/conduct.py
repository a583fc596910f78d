"""A comparison from its plan to its last look: sessions one after the other, what is whole is never measured twice."""

from __future__ import annotations

import math
import os
import random
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ground.errors import IoflameError, MeasurementError, RefusedError, UsageError
from ground.results.comparison import BUILD, COMMAND_LINE, OF_A_BUILD, Comparison, ComparisonRun, Factor, Plan, Session
from ground.results.counted import CountRun
from ground.results.record import RunRecord
from ground.settings import Setting
from ground.text.progress import Reporter
from ground.text.units import format_seconds
from ioflame import __version__
from ioflame.analysis.compare.order import SessionOrder, session_orders
from ioflame.analysis.what_differs import differences
from ioflame.measure.compare.arms import CompareOptions, PlannedArm
from ioflame.measure.compare.relinked import Relinked, refuse_relinking
from ioflame.measure.compare.sessions import SCHEDULES, SessionRun, SessionSetup, bounds_of
from ioflame.measure.compare.trees import Placed, placed
from ioflame.measure.count.conduct import count
from ioflame.measure.count.plan import CountOptions, PlannedCount, planned_of
from ioflame.measure.study import begin_or_resume, on_record
from ioflame.stages.comparison import blocks_within, costs_of, judge
from ioflame.stages.run import analyse
from workloads.counted_operations import counted_plan

# Each arm has its own by design: seeds, directories, a process.
_OWN = ("database directory",)
# What only repeats a flag.
_OF_FLAGS = ("setting ", "option ", "threads", "database cache_size", "database num_keys", "database description")
# Of every comparison, also of one that ends before: which looks there would be is decided before the first window.
LOOKS = (4, 6, 8, 12, 16)
# After a thaw: the client's report, once a second, has then told what it had finished by the thaw.
_DROPPED_SECONDS = 1.0
# Of the memory that is free, all block caches together.
_MEMORY_PART = 0.7
_RULE = "t of nested variances at each look, sign flip from 8 sessions on"


def planned(options: CompareOptions, arms: Sequence[PlannedArm]) -> Comparison:
    """The comparison with nothing measured: its plan is fixed here. UsageError for a schedule that cannot be."""
    base = arms[0]
    measured = [arm for arm in arms if not arm.twin_of]
    schedule = options.schedule or _schedule(arms)
    if schedule == "duet":
        _refuse_duet(arms)
    if options.relink:
        refuse_relinking(options.factor, measured)
    if options.factor == COMMAND_LINE:
        own = any(arm.job.db_dir != base.job.db_dir for arm in arms)
    else:
        own = options.tree == "own" or any(arm.job.sizing.shape != base.job.sizing.shape for arm in arms)
    job = base.job
    plan = Plan(
        schedule=schedule,
        tree="own" if own else "shared",
        seed=options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31),
        delta=options.delta,
        looks=list(LOOKS),
        sessions=options.sessions,
        blocks=options.blocks or 2 * len(measured),
        window_seconds=float(job.duration),
        dropped_seconds=_DROPPED_SECONDS,
        profile_seconds=float(job.duration),
        collect=list(job.collect),
        time_limit=options.time,
        bounds=bounds_of(writes=job.engine.step(job.options.workload).changing),
        rule=_RULE,
        relink=options.relink,
    )
    made = Comparison(
        ioflame=__version__,
        created=base.record.created,
        engine=base.record.engine,
        workload=base.record.workload,
        factor=Factor(options.factor, [arm.value for arm in measured]),
        plan=plan,
        arms=[arm.recorded() for arm in arms],
        host=base.record.host,
        options=base.record.options,
    )
    if options.time is not None:
        plan.blocks = _fitted(made, options.time, step=1 if options.blocks else len(measured))
    return made


def _fitted(record: Comparison, seconds: float, step: int) -> int:
    """Blocks a session, with which the sessions up to the first look are within the time. UsageError where none is.

    step: the blocks are a multiple of it where there is room, so each arm is in each place as often
    """
    plan = record.plan
    sessions = min(plan.looks[0], plan.sessions)
    room = blocks_within(record, seconds, sessions)
    least = plan.blocks if step == 1 else 1
    if room < least:
        costs = costs_of(record)
        minutes = math.ceil(sessions * (costs.session_seconds + least * costs.block_seconds) / 60)
        needed = f"{minutes}m"
        raise UsageError(
            f"--time {format_seconds(seconds)}: {sessions} sessions of {least} block{'s' * (least != 1)} take about "
            f"{minutes} min, and the first look is made after them",
            means="there would be no verdict; nothing was started",
            mend=f"--time {shlex.quote(needed)}" + f", or fewer --blocks than {least}" * (least > 1),
        )
    return min(plan.blocks, room - room % step or room)


def _schedule(arms: Sequence[PlannedArm]) -> str:
    """frozen where all arms fit into memory and share no page cache, else one process at a time."""
    caches = sum(arm.job.sizing.cache_size for arm in arms)
    reads_apart = all(arm.job.configuration.direct or arm.job.configuration.cached_by_engine for arm in arms)
    return "frozen" if reads_apart and caches < _MEMORY_PART * _free_memory() else "process"


def _free_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def _refuse_duet(arms: Sequence[PlannedArm]) -> None:
    if len(arms) != 2:
        raise RefusedError(
            f"--schedule duet runs two arms at once; there are {len(arms)}",
            mend="two arms, and --no-twin (no A/A control)",
        )
    reads = [arm.name for arm in arms if not arm.job.configuration.cached_by_engine]
    if reads:
        raise UsageError(
            f"--schedule duet: arm {reads[0]} reads the device ({Setting.CONFIG.to(arms[0].job.configuration.name)})",
            means="two at once would wait for each other's reads; nothing was started",
            mend=f"--schedule frozen, or a {Setting.CONFIG} that has all data in the block cache",
        )
    held = [arm.name for arm in arms if arm.job.options.cpus]
    if held or len(os.sched_getaffinity(0)) < 2:
        raise RefusedError(
            "--schedule duet gives each arm half of the CPUs, in turns"
            + (f"; arm {held[0]} has its own" if held else ""),
            mend=f"leave {Setting.CPUS} out" if held else "--schedule frozen, or a host with two CPUs",
        )


def begin_or_resume_comparison(record: Comparison, out: Path, resume: Path | None) -> ComparisonRun:
    """A new comparison in `out`, or the one in `resume`, whose plan and seed stay."""
    study = begin_or_resume(ComparisonRun, record, out, resume)
    for session in study.record.sessions:
        if not session.whole and not session.ended:
            session.ended = "killed"
    # More may be asked for than then: looks are where they were planned, whatever the end.
    study.record.plan.time_limit, study.record.plan.sessions = record.plan.time_limit, record.plan.sessions
    study.save()
    return study


def conduct(arms: Sequence[PlannedArm], study: ComparisonRun, reporter: Reporter) -> None:
    """Measures session after session until the verdict is there, the plan is done or its time is over.

    A comparison that cannot be (an arm that cannot open the tree) says so in its record.
    """
    with placed(arms, study, reporter) as ready:
        if ready is not None:
            study.save()
            _sessions(ready, study, reporter)


def _sessions(ready: Placed, study: ComparisonRun, reporter: Reporter) -> None:
    record, plan = study.record, study.record.plan
    twin = record.twin
    names = [arm.name for arm in record.arms if not arm.twin_of]
    orders = session_orders(names, plan.sessions, plan.blocks, plan.seed, twin=twin.name if twin else None)
    while (done := len(record.whole_sessions())) < plan.sessions and not out_of_time(record):
        session = Session(len(record.sessions) + 1, time.time())
        record.sessions.append(session)
        # Its number names directories: after a kill the next session must not take it again.
        study.save()
        order = shortened(orders[done], record, done)
        dropped = sum(bool(block.dropped) for one in record.whole_sessions() for block in one.blocks)
        repeats = int(plan.repeats_at_most * plan.blocks * (done + 1)) - dropped
        links = Relinked(plan.relink, plan.seed, session.number, study.directory / "links") if plan.relink else None
        setup = SessionSetup(study, ready, reporter, record.callgraph, repeats, links)
        running = SCHEDULES[plan.schedule](setup, session, order)
        with on_record(study, session):
            try:
                running.measure()
                _fold(running, reporter)
            except BaseException as error:
                session.whole = False
                session.ended = error.what if isinstance(error, IoflameError) else "interrupted"
                raise
            finally:
                record.callgraph = setup.callgraph
                if links is not None:
                    links.remove()
                else:
                    # The libraries that were mapped belong to what an arm is; of links there are many.
                    for process in running.started:
                        record.arm(process.arm.name).identity.update(process.run.record.tools)
        tell_apart(record, {process.arm.name: process.run.record for process in running.started})
        study.save()
        if done + 1 in plan.looks and judge(record).decided:
            return


def _fold(running: SessionRun, reporter: Reporter) -> None:
    """What the windows counted is as good without a profile: one that cannot be folded is said, and no more."""
    with reporter.stage(f"session {running.session.number}: fold what was recorded"):
        for run in running.profiled():
            try:
                analyse(run, Reporter(quiet=True))
            except MeasurementError as error:
                reporter.warn(f"{run.directory.name} has no profile: {error.what}")


def shortened(order: SessionOrder, record: Comparison, done: int) -> SessionOrder:
    """With fewer blocks where the time is not enough for the sessions up to the first look."""
    plan = record.plan
    if plan.time_limit is None or not 0 < done < plan.looks[0]:
        return order
    room = blocks_within(record, plan.time_limit - _spent(record), plan.looks[0] - done)
    return replace(order, blocks=order.blocks[: max(room, 1)])


def _spent(record: Comparison) -> float:
    return sum(session.seconds for session in record.sessions)


def out_of_time(record: Comparison) -> bool:
    """Whether another session like those before, up to the first look one of a single block, would take too long."""
    whole = record.whole_sessions()
    if record.plan.time_limit is None or not whole:
        return False
    if len(whole) < record.plan.looks[0]:
        costs = costs_of(record)
        return _spent(record) + costs.session_seconds + costs.block_seconds > record.plan.time_limit
    return _spent(record) * (1 + 1 / len(whole)) > record.plan.time_limit


def tell_apart(record: Comparison, runs: Mapping[str, RunRecord]) -> None:
    """Fills in what differs, and why there can be no verdict.

    runs: a run of each arm. What follows from the factor is separated from what does not: of builds, everything of the
    client and its libraries; of a setting, what its flag changes. A flag that one client lacks, and whose lack changes
    nothing, is a part of its build.
    """
    arms = [arm.name for arm in record.arms if not arm.twin_of]
    factor = record.factor
    known, rows = record.differing, differences([runs[name] for name in arms])
    record.differing = {name: values for name, values in rows if name not in _OWN}
    if factor.is_command:
        # Flags are known from the command lines themselves; all that differs in these is the factor.
        flags = {name: values for name, values in known.items() if name.startswith("-")}
        others = {n: v for n, v in record.differing.items() if not n.startswith(_OF_FLAGS)}
        record.differing = flags | others
        barring: list[str] = []
    elif factor.is_build:
        barring = [name for name, values in rows if name.startswith("setting ") and "-" not in values]
    else:
        barring = [name for name, _ in rows if name.startswith(OF_A_BUILD)]
    record.not_comparable = [
        f"{name} differs besides {factor.name}: {', '.join(record.differing[name])}" for name in barring
    ]


def planned_beside(arms: Sequence[PlannedArm], factor: str, operations: Sequence[str]) -> PlannedCount:
    """operations: none for those that the workload does. UsageError for arms that cannot be counted."""
    if factor != BUILD or any(arm.environment for arm in arms):
        raise RefusedError(
            "--count: the arms differ by more than their builds, and a count is of builds alone",
            mend="without --count; `ioflame count --per FUNCTION -- COMMAND` counts a command unchanged",
        )
    base = arms[0].job
    engine = base.engine
    if not engine.by_our_client:
        raise RefusedError(
            f"--count: {base.build.path} cannot be counted operation by operation; our client can",
            mend=f"{Setting.ROCKSDB.to('<a release or a library>,<another>')}, without --arm",
        )
    asked = operations or counted_plan(engine.name, engine.file(".")).of_workload(base.options.workload)
    builds = {arm.name: arm.job.build for arm in arms if not arm.twin_of}
    options = CountOptions(engine.name, libraries=base.options.library, operations=asked)
    return planned_of(options, engine, builds)


def count_beside(plan: PlannedCount, study: ComparisonRun, reporter: Reporter) -> None:
    """Into the comparison's directory; nothing where that has been done. One that was cut short is begun anew."""
    done = study.count()
    if done is not None and done.operations.keys() >= set(plan.names):
        return
    shutil.rmtree(study.counted, ignore_errors=True)
    study.counted.mkdir()
    count(plan, CountRun(study.counted, plan.record()), reporter)
