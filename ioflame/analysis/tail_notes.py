"""What limits the figures of slow queries, in words: losses, few records, and what a closed loop does not show."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.query_records import Recorded
from ground.results.tail import Threshold

_FEW = 500
_LEAST = 50


def notes_of(recorded: Recorded, threshold: Threshold, slow: int, told: bool, apart: bool) -> list[str]:
    """slow: records of slow queries; told: differences are printed; apart: the groups do not overlap"""
    return list(_notes(recorded, threshold, slow, told, apart))


def _notes(recorded: Recorded, threshold: Threshold, slow: int, told: bool, apart: bool) -> Iterator[str]:
    lost = recorded.losses.get("lost_slow", 0)
    if lost:
        share = 100 * lost / recorded.slow if recorded.slow else 100.0
        yield f"{lost:,} slow queries were lost, {share:.1f} %: the ring was full; the kept ones are weighted for them"
    if not apart:
        yield "the threshold lies within the median queries (p40 to p60): no difference is printed"
    elif slow < _LEAST:
        yield f"{slow} slow queries were recorded: below {_LEAST} no difference is printed"
    elif not told:
        yield "the window is too short for an interval (below 2 s): no difference is printed"
    elif slow < _FEW:
        yield f"{slow} slow queries were recorded: below {_FEW} intervals are rough"
    if not threshold.asked and threshold.quantile > 0.9905:
        yield (
            f"queries were slower in the second before the window: kept from p{100 * threshold.quantile:.2f} on, "
            "the 99th percentile is shorter"
        )
    if recorded.still_open:
        waited = recorded.linger_ns / 1e9
        yield f"{recorded.still_open:,} queries had not ended {waited:.1f} s after the window: they are not shown"
    if recorded.sample > 1:
        yield (
            f"one query in {recorded.sample} was followed: the slowest of all is shown with a probability of "
            f"1/{recorded.sample}"
        )
    beyond = recorded.waits_beyond + recorded.requests_beyond
    if beyond:
        yield f"{beyond:,} waits and requests had no room in their records: their time is counted, their places are not"
