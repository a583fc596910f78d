"""What a profile is asked for; every value is checked before there is one of these."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ground.errors import RefusedError
from ground.settings import Setting
from ground.text.ranges import choice
from workloads.engine import OUR_CLIENT
from workloads.registry import engine_named


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `ioflame profile`; None means: as the scale says.

    duration in seconds that each instrument watches in all; cache_size in bytes; frequency in samples a second and CPU
    collect: what watches; ladder_sample: the latency ladder follows one query in so many
    tail: a window of records of single queries as well; "force" even where following them is dear; None: none
    threshold_us: from which on a query is a slow one there; None: the slowest by a second before the window
    memory_limit: bytes of the workload and of the page cache that it fills; None: without one
    client: that drives the engine; None for its default
    library: with the engine's code, that our client opens: a release or a path, of an experiment several by commas
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
    cache_type: str = ""
    ladder_sample: int = 8
    tail: str | None = None
    threshold_us: int | None = None
    client: str | None = None
    library: str | None = None
    cpus: str | None = None
    memory_limit: int | None = None

    def as_text(self) -> dict[str, str]:
        """The options as given, for `run.json`."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


def profile_options(arguments: argparse.Namespace) -> ProfileOptions:
    """Of the parsed options; what one of them means for another is checked here. UsageError where it makes no sense."""
    library = libraries(arguments)
    client = _client_of_library(arguments) if library else arguments.client
    engine = engine_named(arguments.engine, client=client)
    if arguments.threshold_us is not None and not arguments.tail and "tail" not in (arguments.collect or ()):
        raise RefusedError(
            f"{Setting.THRESHOLD_US.to(arguments.threshold_us)} has no effect: no records of single queries are "
            "collected",
            mend=Setting.TAIL.to(1),
        )
    types = engine.about.cache_types
    own: dict[str, Any] = {
        "workload": arguments.workload or next(iter(engine.workloads())),
        "configuration": arguments.config or next(iter(engine.configurations())),
        "db_dir": arguments.db_dir.absolute() if arguments.db_dir else None,
        "cache_type": choice(Setting.CACHE_TYPE, arguments.cache_type or types[0], types),
        "frequency": arguments.freq,
        "out": arguments.out.absolute(),
        # An empty text is none, as everywhere.
        "client": client or None,
        "db_bench": arguments.db_bench or None,
        "library": library,
    }
    names = (field.name for field in fields(ProfileOptions) if field.name not in own)
    return ProfileOptions(**own, **{name: getattr(arguments, name) for name in names})


def libraries(arguments: argparse.Namespace) -> str | None:
    """Releases and libraries, several by commas; None where none was asked for."""
    return ",".join(arguments.rocksdb) or None


def _client_of_library(arguments: argparse.Namespace) -> str:
    """The client that opens a library. UsageError where another client was asked for."""
    engine_named(arguments.engine).releases()
    if arguments.db_bench or arguments.client not in (None, OUR_CLIENT):
        other = Setting.DB_BENCH.to(arguments.db_bench) if arguments.db_bench else Setting.CLIENT.to(arguments.client)
        raise RefusedError(
            f"{Setting.ROCKSDB.to(','.join(arguments.rocksdb))} is opened by our own client; {other} is another one",
            mend=f"leave one of {Setting.ROCKSDB}, {Setting.DB_BENCH} and {Setting.CLIENT} out",
        )
    return OUR_CLIENT
