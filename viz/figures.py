"""How the figures of a run are printed, wherever they are: names of `ioflame.metrics.LEGEND`, in the order shown."""

from __future__ import annotations

__all__ = ("HEADLINE", "WINDOW_COLUMNS")

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
