"""Arms resolved against this host: each a job of its own, with the one thing that differs. Nothing is started."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, get_type_hints

import msgspec

from ground.errors import RefusedError, UsageError
from ground.results.comparison import COMMAND_LINE
from ground.text.progress import Reporter
from ioflame.measure.builds import build_of
from ioflame.measure.compare.arms import TWIN, AskedArm, CompareOptions, PlannedArm
from ioflame.measure.compare.own_commands import command_jobs
from ioflame.measure.job import Job, new_record, place, resolve
from ioflame.measure.study import refuse_equal
from workloads.registry import engine_named
from workloads.scales import DatabaseShape

# Of a shape, what a flag can say.
_SHAPE = {name: kind for name, kind in get_type_hints(DatabaseShape).items() if kind in (int, bool, str)}


def resolve_arms(options: CompareOptions, reporter: Reporter) -> list[PlannedArm]:
    """The arms, the base first, the twin last. UsageError for arms that are the same or cannot be distinguished.

    The host is checked once, for the base.
    """
    jobs = command_jobs(options, reporter) if options.factor == COMMAND_LINE else _jobs(options, reporter)
    arms = [
        PlannedArm(asked.name, asked.value, job, dict(asked.environment), new_record(job))
        for asked, job in zip(options.arms, jobs, strict=True)
    ]
    if options.null:
        return arms
    build = options.base.options.library or str(arms[0].job.build.path)
    mend = f"--null {shlex.quote(build)}   (what this host can see), or another build"
    refuse_equal({arm.name: arm.identity for arm in arms}, mend)
    return [*arms, replace(arms[0], name=TWIN, twin_of=arms[0].name)] if options.twin else arms


def _jobs(options: CompareOptions, reporter: Reporter) -> list[Job]:
    """Of arms that are clients, releases or values of a setting."""
    base = options.base.options
    engine = engine_named(base.engine, client=base.client)
    if any((asked.options.library is None) != (base.library is None) for asked in options.arms):
        raise UsageError(
            "some arms are libraries, which our client opens, and others are clients of their own",
            means="the difference would be the client's as well; nothing was started",
            mend="arms of one kind: releases and libraries, or builds of the same client",
        )
    for asked in options.arms:
        # What is quickly seen to be wrong, before the host is looked at.
        engine.find_binary(asked.options.db_bench)
        _shape(asked)
    first = resolve(base, reporter)
    return [_with_arm(first, asked, reporter) for asked in options.arms]


def _with_arm(base: Job, asked: AskedArm, reporter: Reporter) -> Job:
    """The base's job with the client and the settings of another arm."""
    engine, options = base.engine, asked.options
    build = base.build
    if (options.db_bench, options.library) != (base.options.db_bench, base.options.library):
        build = build_of(engine, options, reporter)
        engine.refuse_lacking(build, options.workload)
    configuration = engine.configuration(options.configuration)
    shape = _shape(asked)
    flags = {name: value for name, value in asked.flags.items() if name not in _SHAPE}
    # A client that does not list its flags rejects unknown ones itself.
    unknown = sorted(flags.keys() - build.flags) if build.flags is not None else []
    if unknown:
        raise RefusedError(
            f"--factor {unknown[0]}: neither a setting of ioflame nor a flag of {build.path}",
            mend=f"threads, cpus, cache_size, cache_type, config, {', '.join(_SHAPE)}, or a flag of the client",
        )
    db_dir, sizing = place(options, engine, configuration, base.scale)
    return replace(
        base,
        options=options,
        build=build,
        db_dir=db_dir,
        sizing=replace(sizing, shape=replace(sizing.shape, **shape)),
        configuration=replace(configuration, flags={**configuration.flags, **flags}),
    )


def _shape(asked: AskedArm) -> dict[str, Any]:
    """What of its flags says how its database is loaded."""
    return {name: _parsed(name, value) for name, value in asked.flags.items() if name in _SHAPE}


def _parsed(name: str, text: str) -> Any:
    kind = _SHAPE[name]
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        wanted = "true or false" if kind is bool else "a whole number"
        mend = f"--factor {name}={'true,false' if kind is bool else '<a number>,<another>'}"
        raise RefusedError(f"--factor {name}={text}: not {wanted}", mend=mend) from None
