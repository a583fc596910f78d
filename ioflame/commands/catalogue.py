"""`ioflame list` and `ioflame explain NAME`: what can be run, and the exact command lines it would run."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ground.errors import EXIT_OK, UsageError
from ground.system.cpus import held_on
from ground.text.columns import fold_line
from ground.text.progress import terminal_width
from ground.text.units import format_bytes, format_count
from ioflame.commands.arguments import Commands, add_profile_arguments, add_repetition, counts, profile_options
from ioflame.profile.cells import commands_of, resolve_cells
from ioflame.profile.estimate import plan_lines
from ioflame.profile.options import ProfileOptions
from workloads.cells import has_cells
from workloads.checks import build_checks
from workloads.engine import Engine
from workloads.experiment import experiment_names, own_definitions, read_experiment
from workloads.registry import DEFAULT_ENGINE, engine_named, engine_names
from workloads.scales import scales
from workloads.steps import DatabaseShape, StepParameters

__all__ = ("add_parser",)


def add_parser(commands: Commands) -> None:
    listing = commands.add_parser("list", help="experiments, workloads, configurations, steps, scales, a line each")
    listing.add_argument("--engine", default=DEFAULT_ENGINE, metavar="NAME")
    listing.set_defaults(run=_list)
    explain = commands.add_parser("explain", help="print the command lines that a step or an experiment would run")
    explain.add_argument(
        "name", metavar="NAME", help="a step, workload or experiment of `ioflame list`, or a .toml file"
    )
    add_repetition(explain)
    add_profile_arguments(explain)
    explain.set_defaults(run=_explain)


def _list(arguments: argparse.Namespace) -> int:
    engine = engine_named(arguments.engine)
    sizes = {}
    for scale in scales().values():
        size = f"{format_count(scale.num_keys)} keys, {format_bytes(scale.cache_size)} of cache"
        sizes[scale.name] = f"{size}, windows of {scale.duration} s: {scale.about}"
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


def _explain_cells(name: str, options: ProfileOptions, repeats: str | None) -> int:
    """What an experiment of cells shows, what has to hold, and the command line of every step of every cell."""
    engine = engine_named(options.engine, own_definitions(name))
    rounds = None if repeats is None else counts("REPEATS", repeats)[0]
    job = resolve_cells(name, options, engine, rounds)
    cells = job.cells
    print(f"# {cells.about}\n# shows: {cells.shows}\n# cannot show: {cells.cannot}")
    print(f"# {options.scale}: {cells.scale[options.scale].about}; {len(cells.cells)} cells, {job.rounds} rounds")
    for hold in cells.holds:
        print(f"# has to hold: {hold.what}")
    print(f"# {job.build.path}, {job.record().tools['engine']}; --seed is taken from the database's ledger")
    for cell, step, argv in commands_of(job):
        print(f"\n# {cell}: {step}: {engine.step(step).about}")
        print(" \\\n  ".join(shlex.quote(word) for word in argv))
    return EXIT_OK


def _explain(arguments: argparse.Namespace) -> int:
    options = profile_options(arguments)
    is_file = arguments.name in experiment_names() or arguments.name.endswith(".toml")
    if is_file and has_cells(arguments.name):
        return _explain_cells(arguments.name, options, arguments.repeats)
    is_experiment = is_file
    own = own_definitions(arguments.name) if is_experiment else None
    engine = engine_named(options.engine, own, options.client)
    known = {**engine.steps(), **engine.workloads()}
    if not is_experiment and arguments.name not in known:
        raise UsageError(f"{engine.name} has no step or workload {arguments.name}", mend=f"one of: {', '.join(known)}")
    for what, asked, there in (
        ("SCALE", options.scale, list(scales())),
        ("CONFIG", options.configuration, list(engine.configurations())),
    ):
        if asked not in there:
            raise UsageError(f"{what}={asked} is not known", mend=f"{what}={'|'.join(there)}")
    names = [arguments.name]
    if is_experiment:
        experiment = read_experiment(arguments.name, engine)
        print(f"# {experiment.about}")
        scale, parameters = scales()[options.scale], _parameters(options, engine, frozenset())
        users, repeats = counts("USERS", arguments.users), counts("REPEATS", arguments.repeats or "1")
        steps = [(step.kind, step.step) for step in experiment.plan(users, repeats[0])]
        for line in plan_lines(
            engine, steps, parameters.shape, parameters.cache_size, parameters.duration, scale.warmup
        ):
            print(f"# {line}")
        names = list(dict.fromkeys(step for kind, step, _ in experiment.steps if kind != "baseline"))
    build = engine.inspect(engine.find_binary(options.db_bench))
    print(f"# {build.path}, {engine.about.title} {build.version}; --seed is taken from the database's ledger;")
    print("# --duration covers all windows of a run")
    for check in build_checks(engine, build):
        if check.name == f"{engine.about.client} flags":
            print(f"# {check.value}: {check.means}")
    for name in names:
        print(f"\n# {name}: {known[name].about}")
        argv = held_on(options.cpus, engine.command(build.path, name, _parameters(options, engine, build.flags)))
        print(" \\\n  ".join(shlex.quote(word) for word in argv))
    return EXIT_OK


def _parameters(options: ProfileOptions, engine: Engine, known_flags: frozenset[str] | None) -> StepParameters:
    scale, configuration = scales()[options.scale], engine.configurations()[options.configuration]
    shape = DatabaseShape(options.num_keys or scale.num_keys, block_align=configuration.block_align)
    return StepParameters(
        shape=shape,
        db_dir=options.db_dir or Path("db").absolute() / f"{engine.name}-{shape.num_keys}",
        threads=options.threads,
        seed=0,
        cache_size=options.cache_size or scale.cache_size,
        cache_type=options.cache_type,
        duration=options.duration or scale.duration,
        report_file=Path("RUN") / engine.report_name,
        flags=configuration.flags,
        known_flags=known_flags,
    )
