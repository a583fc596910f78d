"""IO latency as text: the table of operations, and of the kinds of request."""

from __future__ import annotations

from collections.abc import Sequence

from ioflame.histogram import Histogram
from ioflame.latency import IoLatency
from ioflame.sizes import format_bytes

__all__ = ("io_latency_text",)

_PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
_KINDS = 12


def io_latency_text(latency: IoLatency) -> str:
    """Rows by operation, owner and stage in us; the commonest kinds of request."""
    device = latency.device
    pids = ", ".join(map(str, latency.pids)) + (" and children" if latency.children else "")
    lines = [
        f"IO latency of {device.name} ({device.major}:{device.minor}), {latency.seconds:.1f} s, us",
        f"process: {pids}; backend: {latency.backend}, {latency.how}",
        "",
        _line("operation", "owner", "stage", ["count", "mean", *(f"p{p:g}" for p in _PERCENTILES), "max"]),
    ]
    # The process first: it is what was asked for.
    for row in sorted(latency.rows, key=lambda row: row.owner != "process"):
        for stage, histogram in (("queue", row.queue), ("device", row.device), ("total", row.total)):
            if histogram.count:
                lines.append(_line(row.operation, row.owner, stage, _cells(histogram)))
    if latency.kinds:
        lines += ["", f"{'operation':<9} {'owner':<8} {'size':>9} {'count':>11} {'mean':>9}  flags"]
        for kind in latency.kinds[:_KINDS]:
            mean = kind.total_ns / kind.count / 1e3 if kind.count else 0.0
            lines.append(
                f"{kind.operation:<9} {kind.owner:<8} {format_bytes(kind.bytes):>9} {kind.count:>11,} {mean:>9.1f}  "
                + " ".join(kind.flags)
            )
        rest = latency.kinds[_KINDS:]
        if rest:
            lines.append(f"and {sum(kind.count for kind in rest):,} requests of {len(rest)} more kinds")
    return "\n".join(line.rstrip() for line in lines)


def _cells(histogram: Histogram) -> list[str]:
    mean = histogram.mean_ns or 0.0
    values = [histogram.percentile(percent) or 0.0 for percent in _PERCENTILES]
    return [f"{histogram.count:,}", *(f"{value / 1e3:.1f}" for value in (mean, *values, histogram.most_ns))]


def _line(operation: str, owner: str, stage: str, cells: Sequence[str]) -> str:
    count, *numbers = cells
    return f"{operation:<9} {owner:<8} {stage:<6} {count:>11} " + " ".join(f"{cell:>9}" for cell in numbers)
