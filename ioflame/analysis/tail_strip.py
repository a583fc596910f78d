"""The window of the records as time: when slow queries began, what the device had then, and which jobs ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ground.results.query_records import QueryRecord
from ground.results.tail import Strip

# Dots beyond these are not told apart in a picture.
_MOST_DOTS = 1500
_BINS = 100


def strip_of(
    slow: Sequence[QueryRecord],
    counted: Iterable[tuple[QueryRecord, float]],
    jobs: Mapping[str, Sequence[tuple[int, int]]],
    window: tuple[int, int],
) -> Strip:
    """slow: the shortest first; counted: records with their weights; jobs: when they ran; window: its ends, ns of
    CLOCK_MONOTONIC like all moments here."""
    start, end = window
    length = max(end - start, 1)
    sums = [[0.0, 0.0, 0.0] for _ in range(_BINS)]
    for record, weight in counted:
        first = record.first_request
        if first is not None and start <= first.woken < end:
            into = sums[(first.woken - start) * _BINS // length]
            for place, value in enumerate((1.0, first.reads_beside, first.writes_beside)):
                into[place] += weight * value
    wide = length / _BINS / 1e9
    return Strip(
        length / 1e9,
        [((record.begin_ns - start) / 1e9, record.ns / 1e3) for record in slow[-_MOST_DOTS:]],
        len(slow),
        [(place * wide, reads / asked, writes / asked) for place, (asked, reads, writes) in enumerate(sums) if asked],
        wide,
        [
            (name, max(begin - start, 0) / 1e9, min(to - start, length) / 1e9)
            for name, stretches in jobs.items()
            for begin, to in stretches
            if begin < end and to > start
        ],
    )
