"""When a warm-up is over: by what was seen of the block cache, of page faults and of the rate of queries."""

from __future__ import annotations

from collections.abc import Sequence

# These many whole seconds may differ by no more than this share of their mean...
_FLAT_SECONDS = 3
_FLAT_SPREAD = 0.10
# ...the process has to have read this many times the size of the block cache...
CACHE_FILLS = 2.0
# ...and memory is no longer touched for the first time: a cache that fills faults once or more a block.
_FAULTS_PER_QUERY = 0.02


def what_is_missing(rates: Sequence[int], faults: Sequence[int], read_bytes: int, cache_size: int) -> list[str]:
    """What still speaks against a steady state; empty once the warm-up is over.

    rates: queries of each whole second; faults: minor page faults of each of them; cache_size: bytes to be read
    CACHE_FILLS times, 0 where the data fit into the cache. The first second, which holds the opening of the files, does
    not count.
    """
    seconds, faulted = rates[1:][-_FLAT_SECONDS:], faults[1 : len(rates)][-_FLAT_SECONDS:]
    missing = []
    if read_bytes < CACHE_FILLS * cache_size:
        missing.append(f"the cache was filled {read_bytes / cache_size:.1f} times")
    if len(seconds) < _FLAT_SECONDS or _spread(seconds) > _FLAT_SPREAD:
        missing.append("QPS was still changing")
    queries = sum(seconds)
    if len(faulted) < _FLAT_SECONDS or (sum(faulted) > _FAULTS_PER_QUERY * queries and _spread(faulted) > _FLAT_SPREAD):
        missing.append("page faults were not rare or steady")
    return missing


def _spread(values: Sequence[int]) -> float:
    """Largest minus smallest, as a share of the mean."""
    mean = sum(values) / len(values)
    return (max(values) - min(values)) / mean if mean else 1.0
