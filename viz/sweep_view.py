"""How a sweep is shown, on the screen and on the page: the runs by rate, and whether each kept the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.results.sweep import PERCENTILES, Offered, SweepRecord
from viz.svg.axes import duration

_NS = 1e3


@dataclass(frozen=True)
class SweepView:
    """sentence: the rate that keeps the limit, in words; kept: by rate, whether it does; notes: what to know first"""

    record: SweepRecord
    sentence: str
    kept: Mapping[float, str]
    notes: Sequence[str] = ()

    @property
    def heads(self) -> list[str]:
        names = [name.replace("_", ".") for name in PERCENTILES]
        return ["offered/s", "answered/s", *names, "late p99", "CPU/query", self.limit]

    @property
    def limit(self) -> str:
        """What a rate has to keep."""
        record = self.record
        if record.limit_us is None:
            return "not overloaded"
        return f"{record.percentile.replace('_', '.')} <= {duration(record.limit_us * _NS)}"

    @property
    def rows(self) -> list[list[str]]:
        """By rate; the run without a rate last."""
        shown = sorted(self.record.offered, key=lambda one: one.rate or 0.0)
        return [self._row(one) for one in (*shown, self.record.closed)]

    def _row(self, one: Offered) -> list[str]:
        latencies = [duration(one.latency[name] * _NS) if one.latency else "-" for name in PERCENTILES]
        rate = f"{one.rate:,.0f}" if one.rate is not None else "no rate"
        late = duration(one.late * _NS) if one.late else "-"
        verdict = self.kept.get(one.rate, "") if one.rate is not None else ""
        return [rate, f"{one.per_second:,.0f}", *latencies, late, f"{one.cpu:.1f} us", verdict]
