"""The log-linear buckets of `bpf/common.h`, by number."""

from __future__ import annotations

__all__ = ("bounds",)

_PARTS = 32


def bounds(bucket: int) -> tuple[int, int]:
    """Low (inclusive) and high (exclusive) of a bucket, ns."""
    if bucket < _PARTS:
        return bucket, bucket + 1
    shift = bucket // _PARTS - 1
    return (_PARTS + bucket % _PARTS) << shift, (_PARTS + bucket % _PARTS + 1) << shift
