"""IO latency as text: the table of operations, and of the kinds of request."""

from __future__ import annotations

from ground.results.histogram import Histogram
from ground.results.io_latency import IoLatency
from ground.text.columns import fold_line
from ground.text.units import format_bytes
from viz.terminal.columns import microseconds, narrow

_PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
_KINDS = 12
_WIDTH = 80


def io_latency_text(latency: IoLatency) -> str:
    """Rows by operation, owner and stage in us; the commonest kinds of request."""
    device = latency.device
    pids = ", ".join(map(str, latency.pids)) + (" and children" if latency.children else "")
    rows = [["", "", "", "count", "mean", *(f"p{p:g}" for p in _PERCENTILES), "max"]]
    # The process first: it is what was asked for.
    for row in sorted(latency.rows, key=lambda row: row.owner != "process"):
        for stage, histogram in (("queue", row.queue), ("device", row.device), ("total", row.total)):
            if histogram.count:
                rows.append([row.operation, row.owner, stage, *_cells(histogram)])
    lines = [
        f"IO latency of {device.name} (us; {device.major}:{device.minor}, {latency.seconds:.1f} s, process {pids})",
        *fold_line(f"{latency.backend}: {latency.how}", _WIDTH, 2).split("\n"),
        "",
        *narrow(rows, 3),
    ]
    if latency.kinds:
        kinds = [["", "", "size", "count", "mean", "flags"]]
        for kind in latency.kinds[:_KINDS]:
            mean = microseconds(kind.total_ns / kind.count, 1) if kind.count else "-"
            size, count = format_bytes(kind.bytes), f"{kind.count:,}"
            kinds.append([kind.operation, kind.owner, size, count, mean, " ".join(kind.flags)])
        flags = [row.pop() for row in kinds]
        lines += ["", *(f"{line}  {words}" for line, words in zip(narrow(kinds, 2), flags, strict=True))]
        rest = latency.kinds[_KINDS:]
        if rest:
            lines.append(f"and {sum(kind.count for kind in rest):,} requests of {len(rest)} more kinds")
    return "\n".join(line.rstrip() for line in lines)


def _cells(histogram: Histogram) -> list[str]:
    values = [histogram.mean_ns or 0.0, *(histogram.percentile(p) or 0.0 for p in _PERCENTILES), histogram.most_ns]
    return [f"{histogram.count:,}", *(microseconds(value, 1) for value in values)]
