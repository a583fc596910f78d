"""How large a run is: the named scales, and what fits on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ground.errors import HostError
from ground.settings import Setting
from ground.text.toml import tomllib
from ground.text.units import format_bytes, format_count, parse_bytes
from workloads.steps import DatabaseShape, Sizing

# Below this ratio of data to block cache too many queries are answered from memory to call the load IO-bound.
DATA_TO_CACHE = 20
# Left free on the disk after the load, for logs, recordings and everybody else.
_HEADROOM = 1 << 30
_SMALLEST_KEYS = 200_000


@dataclass(frozen=True)
class Scale:
    """A named scale: cache_size in bytes, duration (of one window) and warmup (its bound) in seconds.

    turns: seconds of all turns of an observer in a profile; None: as long as a window
    collect: what watches where COLLECT does not say; named: of it, what an experiment's own file names
    """

    name: str
    about: str
    num_keys: int
    cache_size: int
    duration: int
    warmup: int
    collect: tuple[str, ...] = ("perf",)
    named: tuple[str, ...] = ()
    turns: int | None = None


def scales() -> dict[str, Scale]:
    """The scales of `scales.toml`, by name."""
    rows = tomllib.loads(Path(__file__).with_name("scales.toml").read_text(encoding="utf-8"))
    return {
        name: Scale(
            name=name,
            about=row["about"],
            num_keys=row["num_keys"],
            cache_size=parse_bytes(row["cache_size"]),
            duration=row["duration"],
            warmup=row["warmup"],
            collect=tuple(row["collect"].split()),
            turns=row.get("turns"),
        )
        for name, row in rows.items()
    }


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
