"""A count of finished queries at the moments at which it is known, and what that says of any other moment."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from itertools import pairwise

from ground.results.interval import Interval

# A client's threads start after it has begun to report: this much later at most, on a host that has a CPU for them.
_BEGIN_SECONDS = 0.1


@dataclass
class KnownCounts:
    """moments: CLOCK_MONOTONIC ns, in their order; values: queries finished by then; pauses: the client was stopped"""

    moments: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)

    def add(self, moment_ns: int, value: float) -> None:
        """Of several at one moment the last holds."""
        if self.moments and moment_ns <= self.moments[-1]:
            self.values[-1] = value
        else:
            self.moments.append(moment_ns)
            self.values.append(value)

    def forget(self, before_ns: int) -> None:
        """What nobody asks for any more: moments are known from the last one before it on."""
        old = max(bisect.bisect_right(self.moments, before_ns) - 1, 0)
        del self.moments[:old], self.values[:old]

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at a moment, between two known ones linearly by the time in which the client was not
        stopped; None outside of them."""
        gap = self._gap(moment_ns)
        if gap is None:
            return None
        return self.values[gap] + self._share(gap, moment_ns) * self._gain(gap)

    def off(self, moment_ns: int) -> float:
        """Standard deviation of `at`, queries: how far they may have come other than evenly between two known moments.

        By how much the rates of neighbouring gaps differ, as of gains that are independent of one another (a Brownian
        bridge); of fewer than three gaps that is not known, and any rate up to twice the gap's is taken as likely.
        """
        gap = self._gap(moment_ns)
        if gap is None:
            return 0.0
        share = self._share(gap, moment_ns)
        gaps = [(self._running(*span), self._gain(at)) for at, span in enumerate(pairwise(self.moments))]
        rates = [(seconds, gain / seconds) for seconds, gain in gaps if seconds]
        if len(rates) < 3:
            return abs(self._gain(gap)) * min(share, 1 - share) / math.sqrt(3)
        spread = [(b - a) ** 2 / (1 / s + 1 / t) for (s, a), (t, b) in pairwise(rates)]
        return math.sqrt(sum(spread) / len(spread) * gaps[gap][0] * share * (1 - share))

    @property
    def rate(self) -> float:
        """Queries a second from the first known moment to the last; 0 where there is one alone."""
        seconds = self._running(self.moments[0], self.moments[-1]) if self.moments else 0.0
        return (self.values[-1] - self.values[0]) / seconds if seconds else 0.0

    def _gap(self, moment: int) -> int | None:
        """The index of the known moment before it."""
        if not self.moments or not self.moments[0] <= moment <= self.moments[-1]:
            return None
        return max(min(bisect.bisect_right(self.moments, moment), len(self.moments) - 1) - 1, 0)

    def _gain(self, gap: int) -> float:
        return self.values[min(gap + 1, len(self.values) - 1)] - self.values[gap]

    def _share(self, gap: int, moment: int) -> float:
        first, last = self.moments[gap], self.moments[min(gap + 1, len(self.moments) - 1)]
        span = self._running(first, last)
        return self._running(first, moment) / span if span else 1.0

    def _running(self, first: int, last: int) -> float:
        """Seconds from one moment to the other, without the pauses."""
        stopped = (min(last, end) - max(first, begin) for begin, end in self.pauses)
        return (last - first - sum(span for span in stopped if span > 0)) / 1e9


def rate_of_all(known: KnownCounts, begun_ns: int, ran_ns: int, ended_ns: int) -> Interval | None:
    """Queries a second of a client from its begin to its end, with what is possible of them; None where nothing is
    known.

    ran_ns, ended_ns: when it was last seen running, and first seen to have ended
    Before its first and after its last count queries came at any rate from none to twice the fastest that was counted.
    """
    if len(known.moments) < 2:
        return None
    queries, seconds = known.values[-1] - known.values[0], (known.moments[-1] - known.moments[0]) / 1e9
    spans = zip(pairwise(known.values), pairwise(known.moments), strict=True)
    fastest = max((b - a) / (end - begin) * 1e9 for (a, b), (begin, end) in spans)
    most = max((ended_ns - begun_ns) / 1e9, seconds)
    least = max((ran_ns - begun_ns) / 1e9 - _BEGIN_SECONDS, seconds)
    possible = (queries + 2 * fastest * (most - seconds)) / least
    return Interval(queries / seconds, queries / most, possible, len(known.moments) - 1)
