"""`ioflame list` and `ioflame explain NAME`: what can be run, and the exact command lines it would run."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ground.errors import EXIT_OK, UsageError
from ground.text.columns import fold_line
from ground.text.progress import terminal_width
from ground.text.units import format_bytes, format_count
from ioflame.commands.arguments import Commands, add_options
from ioflame.measure.experiment.job import commands_of
from ioflame.measure.experiment.plan import resolve_cells
from ioflame.measure.job import Planned, planned
from ioflame.measure.options import ProfileOptions, profile_options
from workloads.cells import COMMAND
from workloads.checks import build_checks
from workloads.experiment import experiment_names, own_definitions
from workloads.registry import engine_named, engine_names
from workloads.scales import scales


def add_parser(commands: Commands) -> None:
    listing = commands.add_parser("list", help="experiments, workloads, configurations, steps, scales, a line each")
    add_options(listing, "list")
    listing.set_defaults(run=_list)
    explain = commands.add_parser("explain", help="print the command lines that a step or an experiment would run")
    explain.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a step, workload or experiment of `ioflame list`, or a .toml file (default: what `profile` would run)",
    )
    add_options(explain, "explain")
    explain.set_defaults(run=_explain)


def _list(arguments: argparse.Namespace) -> int:
    engine = engine_named(arguments.engine)
    sizes = {}
    for name, scale in scales().items():
        size = f"{format_count(scale.num_keys)} keys, {format_bytes(scale.cache_size)} of cache"
        sizes[name] = f"{size}, windows of {scale.duration} s: {scale.about}"
    blocks = {
        "experiments": experiment_names(),
        "workloads": {name: step.about for name, step in engine.workloads().items()},
        "configurations": {name: c.about for name, c in engine.configurations().items()},
        "steps": {name: step.about for name, step in engine.steps().items()},
        "scales": sizes,
        "engines": {name: f"through its {engine_named(name).about.client}" for name in engine_names()},
    }
    width = terminal_width(sys.stdout)
    column = max(len(name) for rows in blocks.values() for name in rows)
    for title, rows in blocks.items():
        print(title)
        for name, about in rows.items():
            line = f"  {name:<{column}} {about}".rstrip()
            print(line if width is None else fold_line(line, width, column + 3))
    return EXIT_OK


def _explain_experiment(name: str, options: ProfileOptions, arguments: argparse.Namespace) -> int:
    """What an experiment shows, what is expected, and the command line of every step of every cell."""
    engine = engine_named(options.engine, own_definitions(name), options.client)
    job = resolve_cells(name, options, engine, arguments.repeats, arguments.users)
    cells = job.cells
    print(f"# {cells.about}\n# shows: {cells.shows}\n# cannot show: {cells.cannot}")
    print(f"# {options.scale}: {cells.scale[options.scale].about}; {len(cells.cells)} cells, {job.rounds} rounds")
    for line in [*job.notes, *(job.estimate() if job.announced else ())]:
        print(f"# {line}")
    for hold in cells.holds:
        print(f"# expected: {hold.what}")
    print(f"# {job.build.path}, {job.record().tools['engine']}; --seed is taken from the database's ledger")
    for cell, step, argv in commands_of(job):
        _print_command(f"{cell}: {step}", "as given" if step == COMMAND else engine.step(step).about, argv)
    return EXIT_OK


def _explain(arguments: argparse.Namespace) -> int:
    options = profile_options(arguments)
    name = arguments.name or options.workload
    engine = engine_named(options.engine, client=options.client)
    known = {**engine.steps(), **engine.workloads()}
    if arguments.name and (name in experiment_names() or name.endswith(".toml")):
        if name in known:
            print(f"# An experiment. Of the workload of this name: ioflame explain --workload {name}")
        return _explain_experiment(name, options, arguments)
    if name not in known:
        raise UsageError(f"{engine.name} has no step or workload {name}", mend=f"one of: {', '.join(known)}")
    measured = name in engine.workloads()
    plan = planned(replace(options, workload=name) if measured else options, engine=engine)
    _print_build(plan)
    report = Path("RUN") / engine.report_name
    argv = plan.command(0, report, plan.asked_seconds) if measured else plan.database().command(name)
    _print_command(name, known[name].about, argv)
    return EXIT_OK


def _print_build(plan: Planned) -> None:
    """What all its command lines have in common, and what of it is this host's choice."""
    about, build = plan.engine.about, plan.build
    print(f"# {build.path}, {about.title} {build.version}; --seed is taken from the database's ledger;")
    print("# --duration covers all windows of a run, and more of it on a busy host")
    print(f"# {plan.configuration.name}: {plan.configuration.about}")
    if plan.options.memory_limit is not None:
        print(f"# workloads run in a group of {format_bytes(plan.options.memory_limit)} of memory")
    flags = [check for check in build_checks(plan.engine, build) if check.name == f"{about.client} flags"]
    for line in [*plan.sizing.notes, *(f"{check.value}: {check.means}" for check in flags)]:
        print(f"# {line}")


def _print_command(name: str, about: str, argv: Sequence[str]) -> None:
    print(f"\n# {name}: {about}")
    print(" \\\n  ".join(shlex.quote(word) for word in argv))
