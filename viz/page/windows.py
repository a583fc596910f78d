"""The windows of a run, one a row; what each observer cost, and those that did not watch."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.metrics import LEGEND
from ground.results.record import RunRecord
from viz.figures import window_rows
from viz.page.rendering import absent, table


def windows(record: RunRecord) -> Markup:
    heads, *rows = window_rows(record)
    if not rows:
        return absent("This run has no windows.")
    legend = "; ".join(f"{name}: {LEGEND[name]}" for name in heads[2:])
    heads.append("how it ended")
    rows = [[*row, window.note] for row, window in zip(rows, record.windows, strict=True)]
    return table("Windows", heads, rows, "numbers noted", legend) + _observers(record)


def _observers(record: RunRecord) -> Markup:
    told = Markup("")
    if record.costs:
        rows = []
        for cost in record.costs:
            ratio, low, high = (
                100 * (value - 1) for value in (cost.qps_ratio.estimate, cost.qps_ratio.low, cost.qps_ratio.high)
            )
            rows.append([cost.kind, f"{ratio:+.1f} %", f"{low:+.1f} to {high:+.1f}", str(cost.qps_ratio.n)])
        legend = (
            "QPS in the observer's window against the plain windows beside it; 95 %: interval over their n seconds."
        )
        told += table("What observers cost", ["observer", "QPS", "95 %", "n"], rows, legend=legend)
    if record.unobserved:
        rows = [[lost.kind, lost.why, lost.mend or "-"] for lost in record.unobserved]
        told += table("Not observed", ["observer", "why", "fix"], rows, "words")
    return told
