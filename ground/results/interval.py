"""An interval as result files hold it."""

from __future__ import annotations

from dataclasses import dataclass

from ground.results.ranges import Count, Ends, Signed


@dataclass(frozen=True)
class Interval(Ends):
    """An estimate with its 95 % interval; n is the number of slices it rests on."""

    estimate: Signed
    low: Signed
    high: Signed
    n: Count

    @property
    def leaves_zero(self) -> bool:
        """Of the interval of a difference: True where one is seen. That two intervals overlap says nothing of it."""
        return self.low > 0 or self.high < 0

    @property
    def leaves_one(self) -> bool:
        """The same of a ratio."""
        return self.low > 1 or self.high < 1

    def times(self, factor: float) -> Interval:
        return Interval(factor * self.estimate, factor * self.low, factor * self.high, self.n)
