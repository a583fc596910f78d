"""One latency after the other, from the engine's down to the device's, and what makes the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ground.results.histogram import Histogram
from ground.results.io_latency import IoLatency
from ground.results.ladder import STAGES, Ladder
from viz.terminal.columns import microseconds, narrow

# The stages of the read call, from its entry to its exit.
_CALL = ("sys_pre", "queue", "device", "wake", "runq", "sys_post")


@dataclass(frozen=True, slots=True)
class Layer:
    """One latency: its window, its mean in us, its durations where they are known one by one, and what it is."""

    name: str
    window: str
    mean_us: float
    durations: Histogram | None
    about: str

    def percentile(self, percent: float) -> float | None:
        """us; None where the durations are not known."""
        ns = None if self.durations is None else self.durations.percentile(percent)
        return None if ns is None else ns / 1e3


def latency_layers(metrics: Mapping[str, float], ladder: Ladder | None, io: IoLatency | None) -> list[Layer]:
    """From the engine down to the device; none where neither ladder nor IO latency was measured.

    metrics: of the plain windows (`ground.results.metrics`)
    """
    layers: list[Layer] = []
    if (ladder is None or not ladder.total.count) and io is None:
        return layers
    if "rx.lat" in metrics:
        layers.append(Layer("rx.lat", "plain", metrics["rx.lat"], None, "the engine: threads x 1e6 / qps"))
    if ladder is not None and ladder.total.count:
        mean = ladder.total.mean_ns / 1e3
        whole = ladder.total.histogram
        if ladder.start == "query":
            layers.append(Layer("query", "ladder", mean, whole, "one read of one request, as traced"))
        call = sum(ladder.stage(name).mean_ns for name in _CALL) / 1e3
        known = whole if ladder.start == "syscall" else None
        layers.append(Layer("read call", "ladder", call, known, "pread64, preadv: entry to exit"))
    if io is not None:
        row = io.row("read", "process")
        for name, histogram, about in (
            ("block total", row.total, "request begins to request done"),
            ("device", row.device, "of it, with the driver and the device"),
        ):
            if histogram.count:
                layers.append(Layer(name, "iolat", (histogram.mean_ns or 0.0) / 1e3, histogram, about))
    if "io.lat" in metrics:
        layers.append(Layer("io.lat", "plain", metrics["io.lat"], None, "diskstats, everybody's reads"))
    return layers


def layers_text(
    metrics: Mapping[str, float], ladder: Ladder | None, io: IoLatency | None, *, sentences: bool = True
) -> str:
    """The latency table; empty where it has no rows. sentences: with what makes the difference, below it"""
    layers = latency_layers(metrics, ladder, io)
    if not layers:
        return ""
    rows = [["", "window", "avg", "p50", "p99"]]
    for layer in layers:
        figures = (layer.mean_us, layer.percentile(50.0), layer.percentile(99.0))
        rows.append([layer.name, layer.window, *("-" if us is None else microseconds(us * 1e3) for us in figures)])
    words = ["", *(layer.about for layer in layers)]
    table = [f"{line}  {about}".rstrip() for line, about in zip(narrow(rows, 2), words, strict=True)]
    title = "Latency from the engine to the device (us; each in a window of its own)"
    return "\n".join([title, *table, *(_difference(metrics, ladder) if sentences else [])])


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
