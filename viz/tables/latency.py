"""One latency after the other, from the engine's down to the device's, and what makes the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ground.results.histogram import Histogram
from ground.results.io_latency import IoLatency
from ground.results.ladder import STAGES, Ladder
from ground.text.titles import title_of
from viz.table import ABOUT, TITLE, Block, Column, Section, Table, fixed
from viz.tables.ladder import inside_ns

# Of the read call, of which only a ladder from there on has the durations.
_CALL = ("sys_pre", "queue", "device", "wake", "runq", "sys_post")
_US = fixed(2)


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
    if (ladder is None or not ladder.total.count) and io is None:
        return []
    layers = [*_of_plain(metrics, "rx.lat", "the engine: threads x 1e6 / qps")]
    if ladder is not None and ladder.total.count:
        mean, whole = ladder.total.mean_ns / 1e3, ladder.total.histogram
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
    return [*layers, *_of_plain(metrics, "io.lat", "diskstats, others' reads too")]


def _of_plain(metrics: Mapping[str, float], name: str, about: str) -> Iterator[Layer]:
    if name in metrics:
        yield Layer(name, "plain", metrics[name], None, about)


def _further(ladder: Ladder | None, rx_lat_us: float | None, io: IoLatency | None) -> Iterator[Layer]:
    """What the windows of ladder and iolat have of other latencies."""
    if ladder is not None and ladder.total.count:
        # Clients count the keys of a MultiGet.
        if ladder.start == "query" and ladder.kind == "get":
            whose = "the engine's own count" if rx_lat_us is not None else "the queries seen"
            by_engine = rx_lat_us if rx_lat_us is not None else ladder.seen_us
            yield Layer("rx.lat", "ladder", by_engine, None, f"threads x 1e6 / qps by {whose}")
        if ladder.start == "query":
            yield Layer("query, all", "ladder", ladder.query_ns / 1e3, None, "followed queries, cache hits too")
        yield Layer("block total", "ladder", inside_ns(ladder) / 1e3, None, "of followed queries: queue + device")
        if ladder.device is not None and ladder.device.await_ns is not None:
            yield Layer("io.lat", "ladder", ladder.device.await_ns / 1e3, None, "diskstats of the same window")
    if io is not None:
        queue = io.row("read", "process").queue
        if queue.mean_ns is not None:
            yield Layer("block queue", "iolat", queue.mean_ns / 1e3, queue, "request begins to driver: plug, scheduler")
        mean = io.diskstats.inner.read.mean_ns if io.diskstats is not None else None
        if mean is not None:
            yield Layer("io.lat", "iolat", mean / 1e3, None, "diskstats of the same window, others' reads too")


def latency_section(metrics: Mapping[str, float], ladder: Ladder | None, io: IoLatency | None) -> Section:
    """The table, then what makes the difference."""
    section: list[Block] = [latency_table(latency_layers(metrics, ladder, io))]
    return [*section, *(_difference(metrics, ladder) if ladder is not None and ladder.total.count else ())]


def latency_table(layers: Sequence[Layer]) -> Table[Layer]:
    columns = [
        Column[Layer]("layer", "latency, us", TITLE, lambda layer: layer.name),
        Column("window", "window", TITLE, lambda layer: layer.window),
        Column("avg_us", "avg", _US, lambda layer: layer.mean_us),
        Column("p50_us", "p50", _US, lambda layer: layer.percentile(50.0)),
        Column("p99_us", "p99", _US, lambda layer: layer.percentile(99.0)),
        Column("about", "of what", ABOUT, lambda layer: layer.about),
    ]
    more = (
        "Windows of one run lie one after another, so lines of different windows differ by what changed in between. "
        "diskstats counts whole milliseconds of each request."
    )
    return Table("latency", "Latency from the engine to the device", columns, layers, more=more)


def every_latency(
    metrics: Mapping[str, float], ladder: Ladder | None, rx_lat_us: float | None, io: IoLatency | None
) -> Table[Layer]:
    """With what the windows of ladder and iolat have of other latencies. rx_lat_us: of the ladder's window"""
    layers = latency_layers(metrics, ladder, io)
    return latency_table([*layers, *(_further(ladder, rx_lat_us, io) if layers else ())])


def _difference(metrics: Mapping[str, float], ladder: Ladder) -> Iterator[str]:
    largest = ladder.device_gap()[0]
    gap = ladder.total.mean_ns - inside_ns(ladder)
    whole = "a query" if ladder.start == "query" else "a read call"
    part = f"{largest.mean_ns / 1e3:.2f} us ({100 * largest.mean_ns / gap:.0f} %)"
    if "rx.lat" in metrics and "io.lat" in metrics:
        yield f"The engine's latency is {metrics['rx.lat'] - metrics['io.lat']:.2f} us above the device's."
    yield (
        f"What {whole} takes beside queue and device is {gap / 1e3:.2f} us in the ladder; its largest part is "
        f"{title_of(largest.name)}, {part}: {STAGES[largest.name].about}."
    )
