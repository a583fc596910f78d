"""An interval as result files hold it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Interval",)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; n is the number of slices it rests on."""

    estimate: float
    low: float
    high: float
    n: int

    @property
    def leaves_zero(self) -> bool:
        """Of the interval of a difference: True where one is seen. That two intervals overlap says nothing of it."""
        return self.low > 0 or self.high < 0
