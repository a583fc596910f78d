"""What disturbed a block, by rules that were fixed before it and use no figure of a query."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ground.results.comparison import Block, BlockWindow

# Parts of all CPU time and of all bytes read; MiB a second.
BOUNDS = {"steal": 0.05, "foreign reads": 0.05, "writes": 1.0}
# Reads below this are nobody's workload: logs and the like.
_FEW_BYTES = 1 << 20


def bounds_of(*, writes: bool) -> dict[str, float]:
    """writes: the workload does so itself; of one that reads alone, writes are a compaction that nobody asked for"""
    return {name: bound for name, bound in BOUNDS.items() if not (writes and name == "writes")}


def passed_bounds(block: Block, bounds: Mapping[str, float]) -> str:
    """`steal 7 % in window 2 (B)`: every bound that a window of the block passed; "" where none did."""
    return "; ".join(words for window in block.windows for words in _passed(window, bounds))


def _passed(slot: BlockWindow, bounds: Mapping[str, float]) -> Iterator[str]:
    counters, seconds = slot.window.counters, slot.window.seconds
    foreign = max(counters.storage_read_bytes - counters.process_read_bytes, 0)
    # Others' reads are nothing to a workload that reads nothing itself.
    matters = min(foreign, counters.process_read_bytes) > _FEW_BYTES * seconds
    seen = {
        "steal": counters.steal_ns / 1e9 / seconds / (os.cpu_count() or 1),
        "foreign reads": foreign / counters.storage_read_bytes if matters else 0.0,
    }
    where = f"in window {slot.position + 1} ({slot.arm})"
    for name, part in seen.items():
        if part > bounds.get(name, 1.0):
            yield f"{name} {100 * part:.0f} % {where}"
    written = counters.process_write_bytes / 2**20 / seconds
    if written > bounds.get("writes", float("inf")):
        yield f"writes {written:.0f} MiB/s {where}"
