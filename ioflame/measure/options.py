"""What a profile is asked for; every value is checked before there is one of these."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProfileOptions:
    """The options of `ioflame profile`; None means: as the scale says.

    duration in seconds of one window; cache_size in bytes; frequency in samples a second and CPU
    collect: what watches, each in a window of its own; ladder_sample: the latency ladder follows one query in so many
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
