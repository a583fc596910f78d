"""How an observer's window ran beside the plain ones: whether a time in it may stand for one of theirs."""

from __future__ import annotations

from typing import NamedTuple

from ground.results.metrics import window_metrics
from ground.results.record import RunRecord

# Of the plain windows' rate: below it a window's figures are not those of the workload.
_UNDISTURBED = 0.9


class Carried(NamedTuple):
    """rate: its queries a second, of theirs; None where that is not known

    factor: from a time in the window to that of the plain ones; 1 where it is not carried over
    """

    rate: float | None
    factor: float

    @property
    def is_disturbed(self) -> bool:
        return self.rate is not None and self.rate < _UNDISTURBED

    @property
    def words(self) -> str:
        if self.rate is None or not self.is_disturbed:
            return ""
        return f" That window was disturbed: it ran at {100 * self.rate:.0f} % of the plain windows' rate."


def carried(record: RunRecord, kind: str) -> Carried:
    """Of the windows of an observer. A rate that was counted once is that of all windows."""
    plain, seen = (
        window_metrics([window for window in record.windows if window.kind == one], record.threads).get("qps")
        for one in ("plain", kind)
    )
    if not plain or not seen or (record.target is not None and record.target.count_sampled):
        return Carried(None, 1.0)
    rate = seen / plain
    return Carried(rate, rate if rate >= _UNDISTURBED else 1.0)
