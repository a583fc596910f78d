"""`ioflame list` and `ioflame explain STEP`: what can be run, and the exact command line it would run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ioflame.errors import EXIT_OK, UsageError
from ioflame.options import add_profile_arguments, profile_options
from ioflame.sizes import format_bytes, format_count
from workloads.engine import DatabaseShape, Engine, StepParameters
from workloads.experiment import experiment_names
from workloads.registry import engine_named, engine_names
from workloads.scales import scales

__all__ = ("add_parser",)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listing = commands.add_parser("list", help="engines, scales, steps, workloads and experiments, a line each")
    listing.add_argument("--engine", default="rocksdb")
    listing.set_defaults(run=_list)
    explain = commands.add_parser("explain", help="print the command line that a step would run")
    explain.add_argument("step", metavar="STEP", help="a step or workload of `ioflame list`")
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
        "engines": dict.fromkeys(engine_names(), ""),
    }
    for title, rows in blocks.items():
        print(title)
        for name, about in rows.items():
            print(f"  {name:<18} {about}".rstrip())
    return EXIT_OK


def _explain(arguments: argparse.Namespace) -> int:
    options = profile_options(arguments)
    engine = engine_named(options.engine)
    if options.scale not in scales():
        raise UsageError(f"SCALE={options.scale} is not known", mend=f"SCALE={'|'.join(scales())}")
    step, scale = arguments.step, scales()[options.scale]
    print(f"# {_about(engine, step)}")
    parameters = StepParameters(
        shape=DatabaseShape(options.num_keys or scale.num_keys),
        db_dir=options.db_dir or Path("db").absolute() / f"{engine.name}-{options.num_keys or scale.num_keys}",
        threads=options.threads,
        seed=0,
        cache_size=options.cache_size or scale.cache_size,
        duration=options.duration or scale.duration,
        report_file=Path("RUN/db_bench.report.csv"),
        flags=engine.configurations()[options.configuration].flags,
    )
    print("# --seed is taken from the database's ledger; --duration covers all windows of a run")
    print(
        " \\\n  ".join(
            shlex.quote(word) for word in engine.command(engine.find_binary(options.db_bench), step, parameters)
        )
    )
    return EXIT_OK


def _about(engine: Engine, name: str) -> str:
    known = {**engine.steps(), **engine.workloads()}
    if name not in known:
        raise UsageError(f"{engine.name} has no step or workload {name}", mend=f"one of: {', '.join(known)}")
    return known[name].about
