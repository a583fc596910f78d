"""How a sweep is shown, on the screen and on the page: the runs by rate, and whether each kept the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ground.results.sweep import PERCENTILES, Offered, SweepRecord
from viz.svg.axes import duration
from viz.table import Section, Table, of_cells

_NS = 1e3
_COLUMNS = (
    "late p99: how late the client itself began; a latency may hold so much of the client's own. CPU/query: of the "
    "whole process, with up to 20 us in which the client spins until a query is due. The run without a rate asks again "
    "at once; its latencies are from the call."
)


@dataclass(frozen=True)
class SweepView:
    """sentence: the rate that keeps the limit, in words; kept: by rate, whether it does; notes: what to know first"""

    record: SweepRecord
    sentence: str
    kept: Mapping[float, str]
    notes: Sequence[str] = ()

    @property
    def limit(self) -> str:
        """What a rate has to keep."""
        record = self.record
        if record.limit_us is None:
            return "not overloaded"
        return f"{record.percentile.replace('_', '.')} <= {duration(record.limit_us * _NS)}"

    @property
    def table(self) -> Table[Sequence[str]]:
        """By rate; the run without a rate last."""
        names = [name.replace("_", ".") for name in PERCENTILES]
        heads = ["offered/s", "answered/s", *names, "late p99", "CPU/query", self.limit]
        shown = sorted(self.record.offered, key=lambda one: one.rate or 0.0)
        rows = [self._row(one) for one in (*shown, self.record.closed)]
        return replace(of_cells("Runs by rate", heads, rows), more=_COLUMNS)

    def _row(self, one: Offered) -> list[str]:
        latencies = [duration(one.latency[name] * _NS) if one.latency else "-" for name in PERCENTILES]
        rate = f"{one.rate:,.0f}" if one.rate is not None else "no rate"
        late = duration(one.late * _NS) if one.late else "-"
        verdict = self.kept.get(one.rate, "") if one.rate is not None else ""
        return [rate, f"{one.per_second:,.0f}", *latencies, late, f"{one.cpu:.1f} us", verdict]


def sweep_section(view: SweepView) -> Section:
    """Without the sentence, which comes last of all."""
    record = view.record
    threads = f"{record.threads} thread{'s' * (record.threads > 1)}"
    head = f"{record.workload}, {threads}, {record.engine} {record.version}; arrivals {record.arrivals}"
    return [head, record.database, view.table, *view.notes]
