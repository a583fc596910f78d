"""The highest rate at which an engine still answers in time: which rate to try next, and what is known so far.

Latency grows with the rate, slowly at first and then without bound. So a few rates show the curve, and the rest of the
runs halve the gap between the highest that kept the limit and the lowest that did not.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.sweep import Offered

# Of what the engine does without a rate: the curve's first points.
_FIRST = (0.25, 0.5, 0.75)
# The gap in which a rate is as good as known, as a part of it.
_NEAR = 0.04
# Below this part of it, no rate is looked for.
_LEAST = 0.02


class Kept(enum.Enum):
    """Whether a run kept the limit; that is not known where the client's own lateness decides it."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Knee:
    """Rates, queries a second. kept: the highest that kept the limit; missed: the lowest above it that did not"""

    kept: Offered | None
    missed: Offered | None


def kept(one: Offered, percentile: str, limit_us: float | None) -> Kept:
    """The client's lateness only adds: a latency within the limit is within it, whatever the client did."""
    if one.overloaded:
        return Kept.NO
    if limit_us is None or one.latency[percentile] <= limit_us:
        return Kept.YES
    return Kept.NO if one.latency[percentile] - one.late > limit_us else Kept.UNKNOWN


def knee_of(offered: Sequence[Offered], percentile: str, limit_us: float | None) -> Knee:
    """A run that kept the limit above one that did not is chance: the lowest that did not bounds the search."""
    by_rate = sorted((one for one in offered if one.rate is not None), key=lambda one: one.rate or 0.0)
    missed = next((one for one in by_rate if kept(one, percentile, limit_us) is not Kept.YES), None)
    below = [one for one in by_rate if missed is None or (one.rate or 0.0) < (missed.rate or 0.0)]
    return Knee(below[-1] if below else None, missed)


def next_rate(closed: Offered, offered: Sequence[Offered], percentile: str, limit_us: float | None) -> float | None:
    """The rate of the next run; None where the knee is known well enough. closed: the run without a rate"""
    whole = closed.per_second
    if len(offered) < len(_FIRST):
        return whole * _FIRST[len(offered)]
    knee = knee_of(offered, percentile, limit_us)
    low = knee.kept.rate if knee.kept is not None and knee.kept.rate else 0.0
    # Without a rate no thread ever waits for a query: as many cannot come at random.
    high = knee.missed.rate if knee.missed is not None and knee.missed.rate else whole
    if high < _LEAST * whole or high - low < _NEAR * high:
        return None
    return (low + high) / 2
