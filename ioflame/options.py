"""What a profile is asked for: parsed and refused before anything starts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ioflame.cpus import check_cpus
from ioflame.errors import UsageError
from ioflame.sizes import parse_bytes, parse_count

__all__ = ("DEFAULT_WORKLOAD", "ProfileOptions", "add_profile_arguments", "profile_options")

DEFAULT_WORKLOAD = "readrandom"
CALLGRAPHS = ("auto", "fp", "dwarf")
# Those that db_bench has known by these names: the second from 7.7, the third from 8.6 on.
CACHE_TYPES = ("lru_cache", "hyper_clock_cache", "auto_hyper_clock_cache")
# In the order of their windows; `null` attaches nothing, for comparison.
COLLECTORS = ("perf", "iolat", "ladder", "offcpu", "runqlat", "pmp", "null")
_MAX_FREQUENCY = 20_000
_MAX_THREADS = 4096


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `ioflame profile`; None means: as the scale says.

    duration in seconds of one window; cache_size in bytes; frequency in samples a second and CPU
    collect: what watches, each in a window of its own; ladder_sample: the latency ladder follows one query in so many
    cpus: those the workload is held on, as taskset takes them; None: the scheduler's choice
    """

    workload: str
    engine: str
    scale: str
    configuration: str
    db_bench: str | None
    db_dir: Path | None
    threads: int
    num_keys: int | None
    cache_size: int | None
    duration: int | None
    event: str
    frequency: int
    callgraph: str
    out: Path
    quiet: bool
    allow_host_changes: bool = False
    collect: tuple[str, ...] | None = None
    cache_type: str = "lru_cache"
    ladder_sample: int = 8
    cpus: str | None = None

    def as_text(self) -> dict[str, str]:
        """The options as given, for `run.json`."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """The same names as the variables of `make profile`. Values are checked in `profile_options`, all in one way."""
    add = parser.add_argument
    add(
        "--workload",
        default=DEFAULT_WORKLOAD,
        metavar="NAME",
        help=f"what runs (WORKLOAD; default: {DEFAULT_WORKLOAD})",
    )
    add("--engine", default="rocksdb", metavar="NAME", help="which engine (ENGINE; default: rocksdb)")
    add("--scale", default="default", metavar="NAME", help="smoke, default or full (SCALE)")
    add(
        "--config",
        default="iodir",
        metavar="NAME",
        help="how the database reads (CONFIG; default: iodir; `ioflame list`)",
    )
    add("--db-bench", metavar="PATH", help="any build of db_bench (DB_BENCH; default: the one on PATH)")
    add("--db-dir", metavar="DIR", help="the database's directory (DB_DIR; default: db/<engine>-<keys>)")
    add("--threads", default="1", metavar="N", help="reading threads (THREADS; default: 1)")
    add("--cpus", metavar="LIST", help="hold the workload on these, e.g. 0-3,8 (CPUS; default: the scheduler's choice)")
    add("--num-keys", metavar="N", help="keys in the database, e.g. 10M (NUM_KEYS; default: by scale)")
    add("--cache-size", metavar="SIZE", help="block cache, e.g. 128M (CACHE_SIZE; default: by scale)")
    add(
        "--cache-type",
        default="lru_cache",
        metavar="NAME",
        help="kind of block cache: lru_cache, hyper_clock_cache ... (CACHE_TYPE; default: lru_cache)",
    )
    add("--duration", metavar="SECONDS", help="of one window (DURATION; default: by scale)")
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
        help=f"what watches, each in its own window: any of {' '.join(COLLECTORS)} (COLLECT; default: by scale)",
    )
    add(
        "--ladder-sample",
        default="8",
        metavar="N",
        help="the ladder follows one query in N (LADDER_SAMPLE; default: 8)",
    )
    add("--out", default="runs", metavar="DIR", help="where run directories go (OUT; default: runs)")
    add(
        "--allow-host-changes",
        action="store_true",
        help="with buffered reads: drop the page cache before the workload starts (as root)",
    )
    add("-q", "--quiet", action="store_true", help="no progress, only results and warnings")


def profile_options(arguments: argparse.Namespace) -> ProfileOptions:
    """The checked options. UsageError for a value that makes no sense."""
    return ProfileOptions(
        workload=arguments.workload,
        engine=arguments.engine,
        scale=arguments.scale,
        configuration=arguments.config,
        db_bench=arguments.db_bench or None,
        db_dir=Path(arguments.db_dir).absolute() if arguments.db_dir else None,
        threads=_number("THREADS", arguments.threads, int, 1, _MAX_THREADS),
        num_keys=_optional("NUM_KEYS", arguments.num_keys, parse_count, 1_000, 10**12),
        cache_size=_optional("CACHE_SIZE", arguments.cache_size, parse_bytes, 1 << 20, 1 << 50),
        cache_type=_choice("CACHE_TYPE", arguments.cache_type, CACHE_TYPES),
        duration=_optional("DURATION", arguments.duration, int, 1, 86_400),
        event=_event(arguments.event),
        frequency=_number("FREQ", arguments.freq, int, 1, _MAX_FREQUENCY),
        callgraph=_choice("CALLGRAPH", arguments.callgraph, CALLGRAPHS),
        out=Path(arguments.out).absolute(),
        quiet=arguments.quiet,
        allow_host_changes=arguments.allow_host_changes,
        collect=_collect(arguments.collect),
        cpus=check_cpus(arguments.cpus) if arguments.cpus else None,
        ladder_sample=_number("LADDER_SAMPLE", arguments.ladder_sample, int, 1, 1_000_000),
    )


def _number(name: str, text: str, parse: Callable[[str], int], least: int, most: int) -> int:
    try:
        value = parse(text)
    except ValueError as error:
        words = str(error) if parse is not int else f"{text!r} is not a whole number"
        raise UsageError(
            f"{name}={text}: {words}", means="nothing was started", mend=f"{name}=<{least}..{most}>"
        ) from None
    if not least <= value <= most:
        raise UsageError(
            f"{name}={text} is out of range", means="nothing was started", mend=f"{name}=<{least}..{most}>"
        )
    return value


def _optional(name: str, text: str | None, parse: Callable[[str], int], least: int, most: int) -> int | None:
    return None if not text else _number(name, text, parse, least, most)


def _collect(text: str) -> tuple[str, ...] | None:
    """The collectors asked for, each once, in the order of their windows; None where nothing was said."""
    asked = text.replace(",", " ").split()
    unknown = [name for name in asked if name not in COLLECTORS]
    if unknown:
        raise UsageError(
            f"COLLECT={text}: {unknown[0]} is not known",
            means="nothing was started",
            mend=f'COLLECT="{" ".join(COLLECTORS)}", or some of them',
        )
    return tuple(name for name in COLLECTORS if name in asked) if asked else None


def _choice(name: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise UsageError(f"{name}={text} is not known", means="nothing was started", mend=f"{name}={'|'.join(known)}")
    return text


def _event(text: str) -> str:
    if not text or any(c in text for c in " ,{}") or text.startswith("-"):
        raise UsageError(
            f"EVENT={text!r} is not one perf event",
            means="a profile has one event and one unit; several are never mixed",
            mend="EVENT=auto, or one name of `perf list`, such as EVENT=cycles",
        )
    return text
