"""Whether the records of single queries represent all queries that were counted, and what limits their figures."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.checks import Check, Verdict
from ground.results.query_records import Recorded
from ground.results.tail import Tail, Threshold

# As a share: what the kept records' mean may differ by from that of all.
_OFF = 0.01
# Three standard errors of a mean of so many, where durations spread by as much as they last.
_ERRORS = 3.0
_LEAST = 50
_FEW = 500


def tail_checks(tail: Tail) -> list[Check]:
    return [*_mean(tail), *_records(tail)]


def _mean(tail: Tail) -> Iterator[Check]:
    if not tail.mean_us:
        return
    off = tail.weighted_us / tail.mean_us - 1
    allowed = max(_OFF, _ERRORS / max(tail.median.records * 5, 1) ** 0.5)
    sound = abs(off) <= allowed
    yield Check(
        "tail mean",
        Verdict.OK if sound else Verdict.WARN,
        f"{tail.weighted_us:.2f} us by the records, {tail.mean_us:.2f} us as counted ({100 * off:+.2f} %)",
        "" if sound else "the records do not represent all queries: some were lost",
    )


def _records(tail: Tail) -> Iterator[Check]:
    verdict = Verdict.OK if tail.gap is not None else Verdict.WARN
    few = tail.tail.records < _LEAST
    means = "too few for a difference with an interval" if few and tail.gap is None else ""
    yield Check("tail records", verdict, f"{tail.tail.records:,} slow, {tail.median.records:,} median", means)


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
