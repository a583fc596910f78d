"""The options that several commands share, parsed and refused before anything starts."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ground.errors import UsageError
from ground.settings import Setting
from ground.system.cpus import check_cpus
from ground.text.ranges import number
from ground.text.units import parse_bytes, parse_count
from ioflame.measure.options import ProfileOptions
from workloads.engine import OUR_CLIENT
from workloads.registry import DEFAULT_ENGINE, engine_named

CALLGRAPHS = ("auto", "fp", "dwarf")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_NUMBER = r"\d+(?:\.\d+)?"
_MAX_FREQUENCY = 20_000
_MAX_THREADS = 4096
_MOST_SECONDS = 30 * 86_400.0
# The first samples, the others are read with it.
_GROUP = re.compile(r"\{[\w:./-]+(?:,[\w:./-]+)+\}(?::S)?")


class Commands(Protocol):
    """What a command adds its parser to. help: what it does, in a line; more: what an ArgumentParser takes"""

    def add_parser(self, name: str, *, help: str, **more: Any) -> argparse.ArgumentParser: ...


def add_builds(parser: argparse.ArgumentParser) -> None:
    """Which engine, and which builds of it."""
    add = parser.add_argument
    add("--engine", default=DEFAULT_ENGINE, metavar="NAME", help="which engine (ENGINE; default: rocksdb)")
    add(
        "--db-bench",
        metavar="PATH",
        help="any build of the client: db_bench, or ours (DB_BENCH; default: the one on PATH)",
    )
    add(
        "--rocksdb",
        action="append",
        default=[],
        metavar="WHAT",
        help="a release (10.4.2), a librocksdb.so or a .jar, or NAME= before it, instead of a db_bench; "
        "several to compare, A..B for a range (ROCKSDB; `ioflame rocksdb list`)",
    )


def libraries(arguments: argparse.Namespace) -> str | None:
    """Releases and libraries, several by commas; None where none was asked for."""
    return ",".join(arguments.rocksdb) or None


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """The same names as the variables of `make profile`. Values are checked in `profile_options`, all in one way."""
    from ioflame.instruments import INSTRUMENTS  # of commands that measure; they take longer to load than most run

    add = parser.add_argument
    add("--workload", metavar="NAME", help="what runs (WORKLOAD; default: the engine's first: readrandom)")
    add_builds(parser)
    add("--client", metavar="NAME", help="what drives it: db_bench or ioflame (CLIENT; default: the engine's first)")
    add("--scale", default="default", metavar="NAME", help="smoke, default or full (SCALE)")
    add(
        "--config",
        metavar="NAME",
        help="how the database reads (CONFIG; default: the engine's first: iodir; `ioflame list`)",
    )
    add("--db-dir", metavar="DIR", help="the database's directory (DB_DIR; default: db/<engine>-<keys>)")
    add("--threads", default="1", metavar="N", help="reading threads (THREADS; default: 1)")
    add("--cpus", metavar="LIST", help="hold the workload on these, e.g. 0-3,8 (CPUS; default: the scheduler's choice)")
    add("--num-keys", metavar="N", help="keys in the database, e.g. 10M (NUM_KEYS; default: by scale)")
    add("--cache-size", metavar="SIZE", help="block cache, e.g. 128M (CACHE_SIZE; default: by scale)")
    add(
        "--cache-type",
        metavar="NAME",
        help="block cache: lru_cache, hyper_clock_cache ... (CACHE_TYPE; default: the engine's first: lru_cache)",
    )
    add(
        "--memory-limit",
        metavar="SIZE",
        help="bound of the workload and of the page cache that it fills, for buffered reads (MEMORY_LIMIT)",
    )
    add("--duration", metavar="SECONDS", help="seconds of one window (DURATION; default: by scale)")
    add("--event", default="auto", metavar="NAME", help="perf event (EVENT; default: auto: cycles, else cpu-clock)")
    add("--freq", default="999", metavar="HZ", help="samples a second and CPU (FREQ; default: 999)")
    add(
        "--callgraph",
        default="auto",
        metavar="MODE",
        help="auto, fp or dwarf (CALLGRAPH; auto: by a trial of a second)",
    )
    add(
        "--collect",
        default="",
        metavar="NAMES",
        help=f"what watches, each in its own window: any of {' '.join(INSTRUMENTS)} (COLLECT; default: by scale)",
    )
    add(
        "--ladder-sample",
        default="8",
        metavar="N",
        help="the ladder follows one query in N (LADDER_SAMPLE; default: 8)",
    )
    add(
        "--tail",
        default="",
        metavar="1",
        help="a window of records of single queries: why the slowest are slow; force: at any cost (TAIL)",
    )
    add(
        "--threshold-us",
        metavar="US",
        help="with TAIL: a query of so many us is a slow one (THRESHOLD_US; default: the slowest 1 %%)",
    )
    add("--store", metavar="DIR", help="add what was measured to the store in DIR (STORE; `ioflame store --help`)")
    add("--out", default="runs", metavar="DIR", help="where run directories go (OUT; default: runs)")
    add(
        "--allow-host-changes",
        action="store_true",
        help="with buffered reads: drop the page cache before the workload starts (as root)",
    )
    add("-q", "--quiet", action="store_true", help="no progress, only results and warnings")


def profile_options(arguments: argparse.Namespace) -> ProfileOptions:
    """The checked options. UsageError for a value that makes no sense."""
    library = libraries(arguments)
    client = _client_of_library(arguments) if library else arguments.client
    engine = engine_named(arguments.engine, client=client)
    cache_types = engine.about.cache_types
    collect = collectors(arguments.collect)
    threshold_us = _optional(Setting.THRESHOLD_US, arguments.threshold_us, int, 1, 10**9)
    if threshold_us is not None and not arguments.tail and "tail" not in (collect or ()):
        raise UsageError(
            f"{Setting.THRESHOLD_US.to(threshold_us)} has no effect: no records of single queries are collected",
            means="nothing was started",
            mend=Setting.TAIL.to(1),
        )
    return ProfileOptions(
        workload=arguments.workload or next(iter(engine.workloads())),
        engine=arguments.engine,
        scale=arguments.scale,
        configuration=arguments.config or next(iter(engine.configurations())),
        db_bench=arguments.db_bench or None,
        db_dir=Path(arguments.db_dir).absolute() if arguments.db_dir else None,
        threads=number(Setting.THREADS, arguments.threads, int, 1, _MAX_THREADS),
        num_keys=_optional(Setting.NUM_KEYS, arguments.num_keys, parse_count, 1_000, 10**12),
        cache_size=_optional(Setting.CACHE_SIZE, arguments.cache_size, parse_bytes, 1 << 20, 1 << 50),
        cache_type=choice(Setting.CACHE_TYPE, arguments.cache_type or cache_types[0], cache_types),
        memory_limit=_optional(Setting.MEMORY_LIMIT, arguments.memory_limit, parse_bytes, 1 << 20, 1 << 50),
        duration=_optional(Setting.DURATION, arguments.duration, int, 1, 86_400),
        event=event_name(arguments.event),
        frequency=number(Setting.FREQ, arguments.freq, int, 1, _MAX_FREQUENCY),
        callgraph=choice(Setting.CALLGRAPH, arguments.callgraph, CALLGRAPHS),
        out=Path(arguments.out).absolute(),
        quiet=arguments.quiet,
        allow_host_changes=arguments.allow_host_changes,
        collect=collect,
        tail=choice(Setting.TAIL, arguments.tail, ("1", "force")) if arguments.tail else None,
        threshold_us=threshold_us,
        cpus=check_cpus(arguments.cpus) if arguments.cpus else None,
        client=client or None,
        library=library,
        ladder_sample=number(Setting.LADDER_SAMPLE, arguments.ladder_sample, int, 1, 1_000_000),
    )


def _client_of_library(arguments: argparse.Namespace) -> str:
    """The client that opens a library. UsageError where another client was asked for."""
    engine_named(arguments.engine).releases()
    if arguments.db_bench or arguments.client not in (None, "", OUR_CLIENT):
        other = Setting.DB_BENCH.to(arguments.db_bench) if arguments.db_bench else Setting.CLIENT.to(arguments.client)
        raise UsageError(
            f"{Setting.ROCKSDB.to(','.join(arguments.rocksdb))} is opened by our own client; {other} is another one",
            means="nothing was started",
            mend=f"leave one of {Setting.ROCKSDB}, {Setting.DB_BENCH} and {Setting.CLIENT} out",
        )
    return OUR_CLIENT


def _optional(name: Setting | str, text: str | None, parse: Callable[[str], int], least: int, most: int) -> int | None:
    return None if not text else number(name, text, parse, least, most)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Of what asks a store."""
    parser.add_argument("--memory", metavar="SIZE", help="at most, the rest on disk in TMPDIR (default: the host's)")


def memory_of(arguments: argparse.Namespace) -> int | None:
    """Bytes; None where nothing was said."""
    return _optional("--memory", arguments.memory, parse_bytes, 1 << 28, 1 << 50)


def collectors(text: str) -> tuple[str, ...] | None:
    """The instruments asked for, each once, in the order of their windows; None where nothing was said."""
    from ioflame.instruments import INSTRUMENTS

    asked = text.replace(",", " ").split()
    unknown = [name for name in asked if name not in INSTRUMENTS]
    if unknown:
        raise UsageError(
            f"{Setting.COLLECT.to(text)}: {unknown[0]} is not known",
            means="nothing was started",
            mend=Setting.COLLECT.to(f'"{" ".join(INSTRUMENTS)}", or some of them'),
        )
    return tuple(name for name in INSTRUMENTS if name in asked) if asked else None


def choice(name: Setting | str, text: str, known: Sequence[str]) -> str:
    """One of `known`; UsageError, which calls it `name`, where it is none of them."""
    if text not in known:
        raise UsageError(f"{name}={text} is not known", means="nothing was started", mend=f"{name}={'|'.join(known)}")
    return text


def event_name(text: str) -> str:
    """UsageError where it is neither the name of one event, nor a group of them."""
    if _GROUP.fullmatch(text):
        return text
    if not text or any(c in text for c in " ,{}") or text.startswith("-"):
        raise UsageError(
            f"{Setting.EVENT.to(repr(text))} is not one perf event",
            means="a profile has one event and one unit; several are never mixed",
            mend=f"{Setting.EVENT.to('auto')}, or one name of `perf list`, such as {Setting.EVENT.to('cycles')}, or a "
            "group of which the first samples and the others are read with it: "
            + Setting.EVENT.to("'{cycles,instructions}'"),
        )
    return text


def add_repetition(parser: argparse.ArgumentParser) -> None:
    """The options that say how often an experiment's steps are run."""
    parser.add_argument("--users", default="1", metavar="LIST", help='threads of each step, "1 6" (USERS)')
    parser.add_argument(
        "--repeats",
        metavar="N",
        help="how often each step or cell is measured (REPEATS; default: 1, of cells by scale)",
    )


def counts(name: Setting, text: str) -> list[int]:
    """The numbers in `text`; UsageError naming the variable `name` where it is no list of numbers from 1 to 1024."""
    try:
        counts = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > 1024:
        raise UsageError(
            f"{name.to(repr(text))} is no list of numbers from 1 to 1024",
            means="nothing was started",
            mend=name.to("'1 6'"),
        )
    return counts


def part(name: Setting | str, text: str, example: str) -> float:
    """Of a percentage between 0 and 100 %."""
    match = re.fullmatch(rf"({_NUMBER})\s*%", text)
    found = float(match[1]) / 100 if match else 0.0
    if not 0 < found < 1:
        raise UsageError(
            f"{name}={text}: expected a percentage such as {example}",
            means="nothing was started",
            mend=f"{name}={shlex.quote(example)}",
        )
    return found


def seconds(name: Setting | str, text: str, example: str) -> float:
    match = re.fullmatch(rf"({_NUMBER})([smh]?)", text)
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < found <= _MOST_SECONDS:
        raise UsageError(
            f"{name}={text}: expected a time such as {example}",
            means="nothing was started",
            mend=f"{name}={shlex.quote(example)}",
        )
    return found
