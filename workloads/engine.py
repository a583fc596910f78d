"""What an engine has to offer: one protocol, one file an implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ioflame.writes import Writes

__all__ = (
    "Configuration",
    "DatabaseShape",
    "Engine",
    "EngineBuild",
    "EngineResult",
    "LevelSize",
    "Step",
    "StepParameters",
    "Tree",
)


_FILES_TO_DATA = 1.25
_LOAD_SPARE = 256 << 20


@dataclass(frozen=True)
class DatabaseShape:
    """What a database was loaded with; two shapes that differ are two databases.

    key_size, value_size, block_size in bytes; bloom_bits per key.
    """

    num_keys: int
    key_size: int = 20
    value_size: int = 400
    block_size: int = 8192
    block_align: bool = True
    compression: str = "none"
    bloom_bits: int = 10

    @property
    def data_bytes(self) -> int:
        """Bytes of keys and values."""
        return self.num_keys * (self.key_size + self.value_size)

    @property
    def disk_bytes(self) -> int:
        """Upper estimate of the files: 413 MiB were seen for 401 MiB of data, 452 with a tenth of them overwritten; a
        load and a compaction hold some files twice."""
        return int(self.data_bytes * _FILES_TO_DATA) + _LOAD_SPARE

    def keys_within(self, disk_bytes: int) -> int:
        """The most keys of these sizes whose `disk_bytes` are no more than this; 0 where none fit."""
        return max(0, int((disk_bytes - _LOAD_SPARE) / _FILES_TO_DATA / (self.key_size + self.value_size)))


@dataclass(frozen=True)
class EngineBuild:
    """A benchmark binary as found.

    version:        the engine's own (`7.8.3`)
    assertions:     it was built with assertions and says it is slow
    symbols:        `debug info`, `symbol table` or `exported names only`
    frame_pointers: share of functions that set one up, 0..1; None where the code could not be read
    code:           the file that holds the engine's code: the binary, or its shared library
    warnings:       its own warnings, word for word
    flags:          names of the flags it accepts, by its own --help
    left_out:       flags of ours that it does not get, each with why that changes nothing
    """

    path: Path
    version: str
    assertions: bool
    symbols: str
    frame_pointers: float | None
    code: Path
    warnings: tuple[str, ...]
    flags: frozenset[str]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Step:
    """A step or workload, as its engine's data file has it.

    benchmark:    what the client calls it in its closing line
    changes_tree: it leaves another LSM tree behind
    rewrites:     about how much it writes, as a part of the data: 1 for a load
    settles:      it leaves memtable and L0 empty and no compaction pending
    levels:       non-empty levels it has to find: `any`, `several` or `one`
    filters:      `unused` where the filters of the last level are not to be read, else `any`
    """

    about: str
    benchmark: str
    changes_tree: bool
    rewrites: float
    settles: bool
    levels: str
    filters: str


@dataclass(frozen=True)
class Configuration:
    """How the database reads, and what it keeps in memory.

    flags:         of the client, over those of a step
    block_align:   blocks are aligned to their size on disk
    direct:        reads bypass the page cache
    cached_by_engine: the block cache is to hold all data
    """

    name: str
    about: str
    flags: Mapping[str, object]
    block_align: bool
    direct: bool
    cached_by_engine: bool


@dataclass(frozen=True)
class StepParameters:
    """What a step's command line is filled in with. cache_size in bytes, duration in seconds, flags over the step's.

    known_flags: what the client accepts; None where it was not asked
    cache_type: of the block cache, as the engine calls it
    """

    shape: DatabaseShape
    db_dir: Path
    threads: int
    seed: int
    cache_size: int
    duration: int = 0
    report_file: Path | None = None
    flags: Mapping[str, object] = field(default_factory=dict)
    known_flags: frozenset[str] | None = None
    cache_type: str = "lru_cache"


@dataclass(frozen=True)
class LevelSize:
    """A non-empty level of the LSM tree: its number, files, and size in MiB as the engine prints it."""

    level: int
    files: int
    mib: int


@dataclass(frozen=True)
class Tree:
    """The LSM tree: its non-empty levels, and the entries in memtables; None where the engine does not say."""

    levels: Sequence[LevelSize]
    memtable_entries: int | None


@dataclass(frozen=True)
class EngineResult:
    """The engine's own closing line: latency in us, queries a second, seconds, queries, and how many were found.

    mb_per_second: MiB of keys and values a second; p50 to pmax: of its latency histogram, us; None where not printed
    """

    micros_per_op: float
    ops_per_second: float
    seconds: float
    operations: int
    found: int | None
    reads: int | None
    mb_per_second: float | None = None
    p50: float | None = None
    p75: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    p99_99: float | None = None
    pmax: float | None = None


class Engine(Protocol):
    """A storage engine with a benchmark client."""

    name: str

    def find_binary(self, asked: str | None) -> Path:
        """The client: `asked`, or the one on PATH. UsageError when it is not there or can't be executed."""

    def inspect(self, binary: Path) -> EngineBuild:
        """Runs a one-operation job and reads the ELF files. HostError when it does not run at all."""

    def workloads(self) -> dict[str, Step]:
        """What can be measured, by name."""

    def configurations(self) -> dict[str, Configuration]:
        """How a database can be read, by name; the first is the default."""

    def steps(self) -> dict[str, Step]:
        """What prepares a database, by name."""

    def command(self, binary: Path, step: str, parameters: StepParameters) -> list[str]:
        """The full command line of a step or workload, of flags that the client knows.

        UsageError for a flag that it does not know and that may not be left out.
        """

    def left_out(self, known_flags: frozenset[str]) -> dict[str, str]:
        """Flags that a client of these flags does not get, each with the reason why that changes nothing."""

    def parse_tree(self, log: str) -> Tree:
        """The last level table in a log, and the memtables; MeasurementError when there is no table."""

    def parse_writes(self, log: str, step: str, shape: DatabaseShape, threads: int, db_dir: Path) -> Writes | None:
        """What a preparing step wrote; None where its log does not state it."""

    def parse_result(self, log: str, workload: str) -> EngineResult | None:
        """The closing line of a workload; None where the log has none."""

    def stored_settings(self, db_dir: Path) -> dict[str, str]:
        """The settings the database's own files state; empty when they hold no database."""

    def expected_settings(self, shape: DatabaseShape) -> dict[str, str]:
        """What `stored_settings` has to hold for a database of this shape."""

    def is_database_file(self, name: str) -> bool:
        """True for the names of files the engine itself makes in a database's directory."""
