"""Every room's checks of this host, for one profile or for the doctor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from collectors.checks import host_checks, libc_names_check, own_libc, perf_checks, queue_checks
from collectors.counters import Device, device_of
from collectors.host_load import host_load
from collectors.perf import Plan, plan_recording
from collectors.target_counters import TargetProbe
from ebpf.checks import ebpf_checks
from ground.errors import HostError
from ground.results.checks import Check, Verdict
from ground.results.host_load import HostLoad
from ground.text.progress import Reporter
from ioflame.measure.builds import build_of
from ioflame.measure.options import ProfileOptions
from workloads.build import EngineBuild
from workloads.checks import build_checks, disk_checks, existing
from workloads.engine import Engine
from workloads.our_client import client_checks
from workloads.registry import engine_named, engine_names


def profile_checks(plan: Plan, engine: Engine, build: EngineBuild, db_dir: Path) -> list[Check]:
    """Every room's checks for one profile."""
    return [*perf_checks(plan), *_place_checks(db_dir), *build_checks(engine, build)]


def _place_checks(db_dir: Path) -> Iterator[Check]:
    """Those of the host and of the database's place, which need neither perf nor an engine."""
    yield from host_checks()
    yield from ebpf_checks()
    yield from queue_checks(existing(db_dir))
    yield from disk_checks(db_dir)


def doctor_checks(options: ProfileOptions) -> list[Check]:
    """The same for a profile that may not be possible at all: what is missing is a blocked check, and the checks after
    it matter as much."""
    engine = engine_named(options.engine, client=options.client)
    checks: list[Check] = []
    try:
        checks += perf_checks(plan_recording(options.event, options.frequency, options.callgraph))
    except HostError as error:
        checks.append(Check("perf", Verdict.BLOCKED, error.what, error.means, error.mend))
    checks.append(libc_names_check(own_libc()))
    db_dir = options.db_dir or Path("db").absolute()
    checks += _place_checks(db_dir)
    with contextlib.suppress(HostError, OSError):
        checks.append(host_load(device_of(existing(db_dir))).check())
    try:
        checks += build_checks(engine, build_of(engine, options))
    except HostError as error:
        checks.append(Check(engine.about.client, Verdict.BLOCKED, error.what, error.means, error.mend))
    checks += client_checks(engine_named(name) for name in engine_names())
    return checks


def look_at_host(device: Device | None, reporter: Reporter, target: TargetProbe | None = None) -> HostLoad:
    """What others do, as `host_load` has it, and of a busy host the line about it."""
    load = host_load(device, target)
    tell_busy(load, reporter)
    return load


def tell_busy(load: HostLoad, reporter: Reporter) -> None:
    """Of a busy host one line, of a quiet one none."""
    check = load.check()
    if check.verdict is Verdict.WARN:
        reporter.warn(f"busy host: {check.value}; {check.means} -> {check.mend}")
