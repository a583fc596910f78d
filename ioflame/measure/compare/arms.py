"""Arms resolved against this host: each a job of its own, with the one thing that differs. Nothing is started."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from ground.errors import UsageError
from ground.results.comparison import Arm
from ground.results.record import RunRecord
from ground.settings import Setting
from ground.text.progress import Reporter
from ioflame.measure.builds import build_of
from ioflame.measure.compare.options import AskedArm, CompareOptions
from ioflame.measure.job import Job, new_record, place, resolve
from workloads.registry import engine_named
from workloads.releases import version_number
from workloads.steps import DatabaseShape

# Of the copy of the base that is measured as a negative control.
TWIN = "twin"
_SHAPE = {one.name: one.type for one in fields(DatabaseShape)}


@dataclass(frozen=True)
class PlannedArm:
    """An arm that can be run. record: of a run of it that has measured nothing yet."""

    name: str
    value: str
    job: Job
    environment: dict[str, str]
    record: RunRecord
    twin_of: str = ""

    def recorded(self) -> Arm:
        return Arm(
            self.name,
            self.value,
            self.job.options.threads,
            self.twin_of,
            dict(self.environment),
            self.record.options,
            self.record.tools,
        )


def resolve_arms(options: CompareOptions, reporter: Reporter) -> list[PlannedArm]:
    """The arms, the base first, the twin last. UsageError for arms that are the same or cannot be distinguished.

    The host is checked once, for the base.
    """
    engine = engine_named(options.base.options.engine, client=options.base.options.client)
    if any((asked.options.library is None) != (options.base.options.library is None) for asked in options.arms):
        raise UsageError(
            "some arms are libraries, which our client opens, and others are clients of their own",
            means="the difference would be the client's as well; nothing was started",
            mend="arms of one kind: releases and libraries, or builds of the same client",
        )
    for asked in options.arms:
        # What is quickly seen to be wrong, before the host is looked at.
        engine.find_binary(asked.options.db_bench)
        _shape(asked)
    base = resolve(options.base.options, reporter)
    arms = [_planned(asked, _with_arm(base, asked, reporter)) for asked in options.arms]
    if not options.null:
        _refuse_the_same(arms)
    if options.twin and not options.null:
        arms.append(replace(arms[0], name=TWIN, twin_of=arms[0].name))
    return arms


def _with_arm(base: Job, asked: AskedArm, reporter: Reporter) -> Job:
    """The base's job with the client and the settings of another arm."""
    engine, options = base.engine, asked.options
    build = base.build
    if (options.db_bench, options.library) != (base.options.db_bench, base.options.library):
        build = build_of(engine, options, reporter)
        engine.refuse_lacking(build, options.workload)
    configuration = engine.configurations().get(options.configuration)
    if configuration is None:
        raise UsageError(
            f"{Setting.CONFIG.to(options.configuration)} is not known to {engine.name}",
            means="nothing was started",
            mend=Setting.CONFIG.to("|".join(engine.configurations())),
        )
    shape = _shape(asked)
    flags = {name: value for name, value in asked.flags.items() if name not in _SHAPE}
    # A client that does not list its flags rejects unknown ones itself.
    unknown = sorted(flags.keys() - build.flags) if build.flags is not None else []
    if unknown:
        raise UsageError(
            f"--factor {unknown[0]}: neither a setting of ioflame nor a flag of {build.path}",
            means="nothing was started",
            mend=f"threads, cpus, cache_size, cache_type, config, {', '.join(_SHAPE)}, or a flag of the client",
        )
    db_dir, sizing = place(options, engine, configuration, base.scale)
    return replace(
        base,
        options=options,
        build=build,
        db_dir=db_dir,
        sizing=replace(sizing, shape=replace(sizing.shape, **shape)),  # type: ignore[arg-type]
        configuration=replace(configuration, flags={**configuration.flags, **flags}),
    )


def _shape(asked: AskedArm) -> dict[str, int | bool | str]:
    """What of its flags says how its database is loaded."""
    return {name: _parsed(name, value) for name, value in asked.flags.items() if name in _SHAPE}


def _parsed(name: str, text: str) -> int | bool | str:
    kind = str(_SHAPE[name])
    try:
        if kind == "int":
            return int(text)
        if kind == "bool":
            return {"true": True, "false": False}[text]
    except (KeyError, ValueError):
        wanted = "true or false" if kind == "bool" else "a whole number"
        mend = f"--factor {name}={'true,false' if kind == 'bool' else '<a number>,<another>'}"
        raise UsageError(f"--factor {name}={text}: not {wanted}", means="nothing was started", mend=mend) from None
    return text


def _planned(asked: AskedArm, job: Job) -> PlannedArm:
    return PlannedArm(asked.name, asked.value, job, dict(asked.environment), new_record(job))


def _refuse_the_same(arms: Sequence[PlannedArm]) -> None:
    seen: dict[object, str] = {}
    for arm in arms:
        settings = replace(arm.job.options, db_bench=None, library=None)
        own = (arm.job.configuration.flags, arm.job.sizing.shape)
        what = repr((arm.record.tools["engine_artifact"], arm.environment, settings, own))
        if what in seen:
            raise UsageError(
                f"arms {seen[what]} and {arm.name} are the same artifact, {arm.record.tools['engine_artifact']}: "
                "the same bits, whatever their paths",
                means="there is no difference to be found; nothing was started",
                mend=f"--null {shlex.quote(arm.job.options.library or str(arm.job.build.path))}   (what this host can "
                "see), or another build",
            )
        seen[what] = arm.name


def oldest(arms: Sequence[PlannedArm]) -> PlannedArm:
    """The one whose engine is of the lowest version: what it writes the others can read."""
    return min(arms, key=lambda arm: version_number(arm.job.build.version))
