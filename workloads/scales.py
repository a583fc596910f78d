"""How large a run is: its database, its block cache, the named scales, and what fits on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ground.errors import HostError
from ground.settings import Setting
from ground.text.toml import tomllib
from ground.text.units import format_bytes, format_count, parse_bytes

# Below this ratio of data to block cache too many queries are answered from memory to call the load IO-bound.
DATA_TO_CACHE = 20
# Left free on the disk after the load, for logs, recordings and everybody else.
_HEADROOM = 1 << 30
_SMALLEST_KEYS = 200_000
_SMALLEST_SHARD = 4 << 20
_FILES_TO_DATA = 1.25
_LOAD_SPARE = 256 << 20


@dataclass(frozen=True)
class DatabaseShape:
    """What a database was loaded with; two shapes that differ are two databases.

    key_size, value_size, block_size in bytes; bloom_bits per key
    tree: further flags of the client that decide how its tree is built: sizes of buffers, files and levels ...
    """

    num_keys: int
    key_size: int = 20
    value_size: int = 400
    block_size: int = 8192
    block_align: bool = True
    compression: str = "none"
    bloom_bits: int = 10
    tree: Mapping[str, object] = field(default_factory=dict)

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
class Sizing:
    """What a run will use, and in words what was changed to make it fit. cache_size: of the block cache, bytes"""

    shape: DatabaseShape
    cache_size: int
    notes: tuple[str, ...] = ()

    @property
    def cache_shard_bits(self) -> int:
        """log2 of the block cache's shards: 64 as benchmark.sh has it, fewer where a shard would be below 4 MiB.

        A shard too small for a file's filter and index block throws them out again at each query: seen with 16 MiB in
        64 shards as 1.23 reads of 38 KiB a query instead of one of 8 KiB.
        """
        return max(0, min(6, (self.cache_size // _SMALLEST_SHARD).bit_length() - 1))


class Scale(msgspec.Struct, frozen=True):
    """How large a profile is, by name, or an experiment's cells. about: how long it takes, or what it is for

    cache_size: of the block cache, bytes, where the configuration does not say `all`
    duration, warmup: seconds of each window of a workload, and the bound of what comes before the first
    turns: seconds of all turns of what watches a workload; None: as long as a window
    collect: what watches, where COLLECT does not say; named: of it, what a file names
    rounds, cells: of an experiment: how often every cell is run, in rotated order; which cells, empty for all
    memory_limit: of cells that are limited, bytes
    """

    about: str
    num_keys: int = 1
    rounds: int = 1
    cache_size: int = 64 << 20
    memory_limit: int = 512 << 20
    duration: int = 5
    warmup: int = 8
    collect: tuple[str, ...] = ("perf",)
    cells: list[str] = []
    named: tuple[str, ...] = ()
    turns: int | None = None


def scales() -> dict[str, Scale]:
    """Those of a profile, by name."""
    rows = tomllib.loads(Path(__file__).with_name("scales.toml").read_text(encoding="utf-8"))
    sizes = {name: {**row, "cache_size": parse_bytes(row["cache_size"])} for name, row in rows.items()}
    return msgspec.convert(sizes, dict[str, Scale])


def fit(
    scale: Scale,
    num_keys: int | None,
    cache_size: int | None,
    *,
    where: Path,
    free: int,
    loaded: bool,
    block_align: bool = True,
    cache_to_data: float | None = None,
) -> Sizing:
    """Keys and cache for `free` bytes at `where`. Numbers that the user gave are kept or refused, never changed.

    loaded: the database is there already, so the disk need not hold it again
    cache_to_data: the cache as a multiple of the data where nothing else was asked for; 0 for an engine without one
    """
    notes: list[str] = []
    room = free - _HEADROOM
    shape = DatabaseShape(num_keys or scale.num_keys, block_align=block_align)
    if not loaded and shape.disk_bytes > room:
        fitting = shape.keys_within(room) // 100_000 * 100_000
        if num_keys is not None or fitting < _SMALLEST_KEYS:
            raise HostError(
                f"{format_count(shape.num_keys)} keys need {format_bytes(shape.disk_bytes)} of disk and "
                f"{format_bytes(_HEADROOM)} to spare; {format_bytes(free)} are free for {where}",
                means="the load would fill the disk",
                mend=Setting.NUM_KEYS.to(fitting)
                if fitting >= _SMALLEST_KEYS
                else f"free some disk, or {Setting.DB_DIR.to('<a larger disk>')}",
            )
        notes.append(
            f"{format_bytes(free)} are free for {where}: {format_count(fitting)} keys instead of "
            f"{format_count(shape.num_keys)}"
        )
        shape = DatabaseShape(fitting, block_align=block_align)
    if cache_to_data is not None:
        asked = cache_size if cache_to_data else None
        return Sizing(shape, int(shape.data_bytes * cache_to_data) if asked is None else asked, tuple(notes))
    largest = shape.data_bytes // DATA_TO_CACHE
    cache = cache_size if cache_size is not None else scale.cache_size
    if cache > largest and cache_size is None:
        cache = max(largest >> 20, 1) << 20
        notes.append(f"block cache {format_bytes(cache)}, so that the data are {DATA_TO_CACHE} times as large")
    elif cache > max(largest, 1 << 20):
        notes.append(
            f"the block cache of {format_bytes(cache)} is more than a {DATA_TO_CACHE}th of the data "
            f"({format_bytes(shape.data_bytes)}): many queries will be answered from memory"
        )
    return Sizing(shape, cache, tuple(notes))
