"""Whether the records of single queries represent all queries that were counted."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.checks import Check, Verdict
from ground.results.tail import Tail

# As a share: what the kept records' mean may differ by from that of all.
_OFF = 0.01
# Three standard errors of a mean of so many, where durations spread by as much as they last.
_ERRORS = 3.0
_LEAST = 50


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
