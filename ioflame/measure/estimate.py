"""What an experiment will take: steps, time and disk, before anything is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ground.text.units import format_bytes, format_count, format_seconds
from ioflame.measure.baseline import LONGEST_SECONDS
from workloads.engine import Engine
from workloads.steps import DatabaseShape

# What a disk worth measuring writes at least, while a compaction reads from it.
_WRITES_PER_SECOND = 100 << 20
# Opening, two looks at pending compactions 5 s apart, closing.
_PREPARE_SECONDS = 8
# perf's start and end and what the engine is given to spare for them, settling, looking at the tree, folding.
_MEASURE_SECONDS = 16


def step_seconds(
    engine: Engine, kind: str, step: str, shape: DatabaseShape, duration: int, warmup: int, observers: int
) -> float:
    """About how long a step takes. duration: of one window; warmup: its bound; observers: each has a window."""
    if kind == "baseline":
        return min(duration, LONGEST_SECONDS) + 2
    if kind == "measure":
        # The engine is started for the longest warm-up there may be, and lives as long.
        return warmup + (2 * observers + 1) * duration + _MEASURE_SECONDS
    return _PREPARE_SECONDS + engine.steps()[step].rewrites * shape.data_bytes / _WRITES_PER_SECOND


def plan_lines(
    engine: Engine,
    steps: Iterable[tuple[str, str]],
    shape: DatabaseShape,
    cache_size: int,
    duration: int,
    warmup: int,
    observers: int = 1,
) -> Iterator[str]:
    """steps: the kind and name of each that is still to do."""
    seconds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for kind, step in steps:
        seconds[kind] += round(step_seconds(engine, kind, step, shape, duration, warmup, observers))
        counts[kind] += 1
    parts = ", ".join(f"{counts[kind]} {kind} {format_seconds(seconds[kind])}" for kind in counts)
    yield f"{counts.total()} steps, about {format_seconds(seconds.total())}: {parts}"
    yield (
        f"{format_count(shape.num_keys)} keys, {format_bytes(shape.data_bytes)} of data, "
        f"{format_bytes(shape.disk_bytes)} of disk at most; block cache {format_bytes(cache_size)}; "
        f"windows of {duration} s after at most {warmup} s of warm-up"
    )
