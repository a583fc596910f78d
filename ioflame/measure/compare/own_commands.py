"""Arms that are whole command lines of the user's: `--arm A='./client --my flags'`. What differs between them is the
factor, flag by flag."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from folding.stackfold import stackfold_binary
from ground.errors import UsageError
from ground.results.run import check_writable
from ground.text.progress import Reporter
from ioflame.measure.builds import build_of
from ioflame.measure.compare.arms import TWIN, PlannedArm
from ioflame.measure.compare.command_job import CommandJob, shape_of
from ioflame.measure.compare.options import AskedArm, CompareOptions
from ioflame.measure.job import Planned, new_record, on_this_host, scale_of
from ioflame.measure.options import ProfileOptions
from workloads.build import EngineBuild
from workloads.engine import Engine
from workloads.engines.rocksdb.command_line import BenchCommand, differing_flags
from workloads.registry import engine_named
from workloads.scales import Sizing


def workload_of(engine: Engine, bench: BenchCommand, name: str) -> str:
    """The workload whose benchmark a command line runs, so that its threads' roles are known. UsageError for one that
    cannot be an arm. name: of the arm"""
    refused = bench.refused
    if refused is not None:
        raise UsageError(
            f"arm {name}: {refused.why}",
            means=f"{refused.means}; nothing was started",
            mend=f"--arm {shlex.quote(' '.join((f'{name}=...', refused.add)))}",
        )
    (benchmark,) = bench.benchmarks
    workloads = engine.workloads()
    fitting = [one for one, step in workloads.items() if step.benchmarks.split(",")[0] == benchmark]
    if not fitting or workloads[fitting[0]].creates:
        known = dict.fromkeys(step.benchmarks.split(",")[0] for step in workloads.values() if not step.creates)
        raise UsageError(
            f"arm {name}: --benchmarks={benchmark} is not known here: which of its threads send queries is not",
            means="nothing was started",
            mend=f"--benchmarks={'|'.join(known)}",
        )
    return benchmark if benchmark in fitting else fitting[0]


def resolve_commands(options: CompareOptions, reporter: Reporter) -> list[PlannedArm]:
    """The arms, the base first, the twin last. UsageError for those that are the same, or run different benchmarks."""
    check_writable(options.base.options.out)
    stackfold_binary()
    engine = engine_named(options.base.options.engine)
    benches = [_bench_of(asked) for asked in options.arms]
    run = {asked.name: bench.benchmarks[0] for asked, bench in zip(options.arms, benches, strict=True)}
    if len(set(run.values())) > 1:
        raise UsageError(
            f"arms run different benchmarks: {', '.join(f'{name}: {what}' for name, what in run.items())}",
            means="a query of one is not a query of the other; nothing was started",
            mend="arms of the same --benchmarks",
        )
    arms: list[PlannedArm] = []
    for asked, bench in zip(options.arms, benches, strict=True):
        build = build_of(engine, asked.options, reporter)
        _check_flags(asked.name, bench, build)
        what = _planned(engine, asked.options, bench, build)
        # The host is checked once, for the base.
        checked = on_this_host(what, reporter) if not arms else None
        plan = checked.plan if checked is not None else arms[0].job.plan
        job = CommandJob(**vars(what), plan=plan, bench=bench, line=asked.value)
        arms.append(PlannedArm(asked.name, asked.value, job, dict(asked.environment), new_record(job)))
    _refuse_the_same(arms, options)
    if options.twin:
        arms.append(replace(arms[0], name=TWIN, twin_of=arms[0].name))
    return arms


def differing_between(arms: Sequence[PlannedArm]) -> dict[str, list[str]]:
    """Flags that differ, by arm; and the program, where it does."""
    jobs = [arm.job for arm in arms if not arm.twin_of and isinstance(arm.job, CommandJob)]
    found = differing_flags([job.bench for job in jobs])
    programs = [str(job.build.path) for job in jobs]
    return ({"tool program": programs} if len(set(programs)) > 1 else {}) | found


def _bench_of(asked: AskedArm) -> BenchCommand:
    if asked.bench is None:
        raise UsageError(
            f"arm {asked.name} is a client alone, and another arm is a whole command line",
            means="what runs in it is not known; nothing was started",
            mend=f"--arm {shlex.quote('='.join((asked.name, asked.value)) + ' <its flags>')}",
        )
    return asked.bench


def _check_flags(name: str, bench: BenchCommand, build: EngineBuild) -> None:
    unknown = sorted(bench.flags.keys() - build.flags) if build.flags is not None else []
    if unknown:
        raise UsageError(
            f"arm {name}: {build.path} does not know --{unknown[0]}",
            means="it would end at once; nothing was started",
            mend=f"{shlex.quote(str(build.path))} --help   (lists its flags)",
        )


def _planned(engine: Engine, options: ProfileOptions, bench: BenchCommand, build: EngineBuild) -> Planned:
    database = bench.database
    assert database is not None
    if not engine.stored_settings(database):
        raise UsageError(
            f"--db={database}: there is no database of {engine.about.title}",
            means="nothing was started",
            mend=f"ls {shlex.quote(str(database))}",
        )
    fitting = [one for one in engine.configurations().values() if one.direct == bench.direct_reads]
    configuration = replace(fitting[0], flags={}, cached_by_engine=False)
    sizing = Sizing(shape_of(bench), bench.cache_size, ())
    options = replace(options, threads=bench.threads, configuration=configuration.name)
    return Planned(options, engine, build, scale_of(options), sizing, Path(database), configuration)


def _refuse_the_same(arms: Sequence[PlannedArm], options: CompareOptions) -> None:
    for place, arm in enumerate(arms):
        for other in arms[:place]:
            same_bits = arm.record.tools["engine_artifact"] == other.record.tools["engine_artifact"]
            flags = {name for name in differing_between([other, arm]) if name.startswith("-")}
            if same_bits and not flags and arm.environment == other.environment:
                raise UsageError(
                    f"arms {other.name} and {arm.name} are the same program with the same flags",
                    means="order and spelling make no difference, so there is nothing to compare; nothing was started",
                    mend=f"--null {shlex.quote(str(options.base.options.db_bench))}   (what this host can see)",
                )
