"""The windows of a run, one a row; what each observer cost, and those that did not watch."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.metrics import LEGEND, metrics_of
from ground.results.record import RunRecord
from viz.figures import window_columns
from viz.page.rendering import absent, table

__all__ = ("windows",)


def windows(record: RunRecord) -> Markup:
    columns = window_columns(record)
    rows = []
    for window in record.windows:
        metrics = metrics_of(record, [window])
        cells = [form.format(metrics[name]) if name in metrics else "-" for name, form in columns]
        rows.append([window.kind, f"{window.seconds:.1f}", *cells, window.note])
    if not rows:
        return absent("This run has no windows.")
    heads = ["window", "seconds", *(name for name, _ in columns), "how it ended"]
    legend = "; ".join(f"{name}: {LEGEND[name]}" for name, _ in columns)
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
        told += table("Not observed", ["observer", "why", "to mend"], rows, "words")
    return told
