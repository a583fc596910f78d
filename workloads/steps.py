"""What an engine is asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from workloads.scales import Sizing


class Step(msgspec.Struct, frozen=True):
    """A step or workload, as its engine's data file has it.

    benchmarks:   what the client runs, parted by commas
    changes_tree: it leaves another LSM tree behind
    rewrites:     about how much it writes, as a part of the data: 1 for a load
    settles:      it leaves memtable and L0 empty and no compaction pending
    levels:       non-empty levels it has to find: `any`, `several` or `one`
    filters:      `unused` where the filters of the last level are not to be read, else `any`
    writes:       its queries are writes
    write_rate:   bytes a second of a writer that runs beside its queries, in a thread of its own; 0 without one
    creates:      it makes the database anew
    compacts:     it only reads, and may be followed by compactions all the same
    threads:      of its own that send queries; 0 for as many as were asked for
    missing_keys: it also asks for keys that are not there
    """

    about: str
    benchmarks: str
    changes_tree: bool = False
    rewrites: float = 0.0
    settles: bool = False
    levels: str = "any"
    filters: str = "any"
    writes: bool = False
    write_rate: int = 0
    creates: bool = False
    compacts: bool = False
    threads: int = 0
    missing_keys: bool = False

    @property
    def changing(self) -> bool:
        """It leaves another tree than it found."""
        return self.writes or bool(self.write_rate) or self.compacts

    @property
    def writers(self) -> int:
        """Threads beside those that send queries."""
        return 1 if self.write_rate else 0


@dataclass(frozen=True)
class Configuration:
    """How the database reads, and what it keeps in memory.

    flags:         of the client, over those of a step
    block_align:   blocks are aligned to their size on disk
    direct:        reads bypass the page cache
    cached_by_engine: the block cache is to hold all data
    compression:   of its database; "" for the usual
    """

    name: str
    about: str
    direct: bool
    cached_by_engine: bool
    flags: Mapping[str, Any] = field(default_factory=dict)
    block_align: bool = True
    compression: str = ""


@dataclass(frozen=True)
class StepParameters:
    """What a step's command line is filled in with. duration in seconds, flags over the step's.

    cache_type: of the block cache, as the engine calls it; "" for the default
    """

    sizing: Sizing
    db_dir: Path
    threads: int
    seed: int
    duration: int = 0
    report_file: Path | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    cache_type: str = ""


def flag_value(value: object, values: Mapping[str, object]) -> str:
    """As it is written on a command line. values: of each {name} in a text"""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).format(**values) if isinstance(value, str) else str(value)
