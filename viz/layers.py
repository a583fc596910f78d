"""One latency after the other, from the engine's down to the device's, and what makes the difference."""

from __future__ import annotations

from collections.abc import Mapping

from ioflame.histogram import Histogram
from ioflame.ladder import STAGES, Ladder
from ioflame.latency import IoLatency
from viz.columns import microseconds, narrow

__all__ = ("layers_text",)

# The stages of the read call, from its entry to its exit.
_CALL = ("sys_pre", "queue", "device", "wake", "runq", "sys_post")


def layers_text(metrics: Mapping[str, float], ladder: Ladder | None, io: IoLatency | None) -> str:
    """The latency table; empty where neither of the two was measured.

    metrics: of the plain windows (`ioflame.metrics`)
    """
    rows = [["", "window", "avg", "p50", "p99"]]
    words = [""]

    def add(name: str, window: str, mean_us: float, histogram: Histogram | None, about: str) -> None:
        percentiles = [None if histogram is None else histogram.percentile(p) for p in (50.0, 99.0)]
        known = ["-" if ns is None else microseconds(ns) for ns in percentiles]
        rows.append([name, window, microseconds(mean_us * 1e3), *known])
        words.append(about)

    if (ladder is None or not ladder.total.count) and io is None:
        return ""
    if "rx.lat" in metrics:
        add("rx.lat", "plain", metrics["rx.lat"], None, "the engine: threads x 1e6 / qps")
    if ladder is not None and ladder.total.count:
        total = ladder.total
        if ladder.start == "query":
            add("query", "ladder", total.mean_ns / 1e3, total.histogram, "one read of one request, as traced")
        call = sum(ladder.stage(name).mean_ns for name in _CALL)
        whole = total.histogram if ladder.start == "syscall" else None
        add("read call", "ladder", call / 1e3, whole, "pread64, preadv: entry to exit")
    if io is not None:
        row = io.row("read", "process")
        for name, histogram, about in (
            ("block total", row.total, "request begins to request done"),
            ("device", row.device, "of it, with the driver and the device"),
        ):
            if histogram.count:
                add(name, "iolat", (histogram.mean_ns or 0.0) / 1e3, histogram, about)
    if "io.lat" in metrics:
        add("io.lat", "plain", metrics["io.lat"], None, "diskstats, everybody's reads")
    table = [f"{line}  {about}".rstrip() for line, about in zip(narrow(rows, 2), words, strict=True)]
    title = "Latency from the engine to the device (us; each in a window of its own)"
    return "\n".join([title, *table, *_difference(metrics, ladder)])


def _difference(metrics: Mapping[str, float], ladder: Ladder | None) -> list[str]:
    if ladder is None or not ladder.total.count:
        return []
    largest = ladder.device_gap()[0]
    inside = sum(ladder.stage(name).mean_ns for name in ("queue", "device"))
    gap = ladder.total.mean_ns - inside
    whole = "a query" if ladder.start == "query" else "a read call"
    part = f"{largest.mean_ns / 1e3:.2f} us ({100 * largest.mean_ns / gap:.0f} %)"
    lines = []
    if "rx.lat" in metrics and "io.lat" in metrics:
        lines.append(f"The engine's latency is {metrics['rx.lat'] - metrics['io.lat']:.2f} us above the device's.")
    return [
        *lines,
        f"What {whole} takes beside queue and device is {gap / 1e3:.2f} us in the ladder; its largest part:",
        f"{largest.name} {part}: {STAGES[largest.name].about}.",
    ]
