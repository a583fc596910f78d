"""How the figures of a run are printed, wherever they are: names of `ioflame.metrics.LEGEND`, in the order shown."""

from __future__ import annotations

from ioflame.stats import Interval

__all__ = ("HEADLINE", "WINDOW_COLUMNS", "interval_text")

HEADLINE = (
    ("qps", "{:,.0f}"),
    ("iops", "{:,.0f}"),
    ("rx.lat", "{:.2f} us"),
    ("io.lat", "{:.2f} us"),
    ("usPer", "{:.2f} us"),
    ("syPer", "{:.2f} us"),
    ("cpuPer", "{:.2f} us"),
    ("cpuPerRead", "{:.2f} us"),
    ("readsPerQuery", "{:.3f}"),
    ("reqsz", "{:.2f} KiB"),
)
WINDOW_COLUMNS = (
    ("qps", "{:,.0f}"),
    ("iops", "{:,.0f}"),
    ("usPer", "{:.2f}"),
    ("syPer", "{:.2f}"),
    ("cpuPer", "{:.2f}"),
    ("csPer", "{:.2f}"),
)


def interval_text(form: str, interval: Interval, between: str) -> str:
    """Both ends of an interval as `form` prints its figure, without the unit."""
    bare = form.partition("}")[0] + "}"
    return f"{bare.format(interval.low)}{between}{bare.format(interval.high)}"
