"""`ioflame doctor`: what this host can measure, and what it does to the numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from collectors.checks import host_checks, perf_checks, queue_checks
from collectors.perf import Plan, plan_recording
from ebpf.checks import ebpf_checks
from ioflame.checks import Check, Verdict, render_checks, worst
from ioflame.errors import EXIT_HOST, EXIT_OK, HostError
from ioflame.options import add_profile_arguments, profile_options
from ioflame.progress import terminal_width
from workloads.checks import build_checks, disk_checks, existing
from workloads.engine import EngineBuild
from workloads.registry import engine_named

__all__ = ("add_parser", "gather", "run")


def gather(plan: Plan, build: EngineBuild, db_dir: Path) -> list[Check]:
    """Every room's checks for one profile."""
    return [*perf_checks(plan), *_place_checks(db_dir), *build_checks(build)]


def _place_checks(db_dir: Path) -> Iterator[Check]:
    """Those of the host and of the database's place, which need neither perf nor an engine."""
    yield from host_checks()
    yield from ebpf_checks()
    yield from queue_checks(existing(db_dir))
    yield from disk_checks(db_dir)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="check what this host can measure", description=__doc__)
    add_profile_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a check; exit code 3 when a profile cannot work at all."""
    options = profile_options(arguments)
    engine = engine_named(options.engine)
    checks: list[Check] = []
    # A doctor reports what is broken and goes on: the checks after it matter as much.
    try:
        checks += perf_checks(plan_recording(options.event, options.frequency, options.callgraph))
    except HostError as error:
        checks.append(Check("perf", Verdict.BLOCKED, error.what, error.means, error.mend))
    checks += _place_checks(options.db_dir or Path("db").absolute())
    try:
        checks += build_checks(engine.inspect(engine.find_binary(options.db_bench)))
    except HostError as error:
        checks.append(Check("db_bench", Verdict.BLOCKED, error.what, error.means, error.mend))
    print(render_checks(checks, terminal_width(sys.stdout)))
    return EXIT_HOST if worst(checks) is Verdict.BLOCKED else EXIT_OK
