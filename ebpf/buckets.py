"""The log-linear buckets of `bpf/common.h`, by number."""

from __future__ import annotations

from collections.abc import Mapping

from ground.results.histogram import Histogram

_PARTS = 32


def bounds(bucket: int) -> tuple[int, int]:
    """Low (inclusive) and high (exclusive) of a bucket, ns."""
    if bucket < _PARTS:
        return bucket, bucket + 1
    shift = bucket // _PARTS - 1
    return (_PARTS + bucket % _PARTS) << shift, (_PARTS + bucket % _PARTS + 1) << shift


def histogram(counts: Mapping[int, int], count: int, sum_ns: int, least_ns: int, most_ns: int) -> Histogram:
    """A histogram of `count` durations that were counted by bucket number, but for those that `counts` lacks."""
    buckets = [(*bounds(bucket), held) for bucket, held in sorted(counts.items())]
    return Histogram(count, sum_ns, least_ns, most_ns, buckets)
