"""The device's latency on a page: from the engine's view of a query down to the device, histograms, and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ground.results.io_latency import IoLatency
from ground.results.ladder import Ladder
from viz.page.latency_plots import heat_map_figure, histograms, percentile_table
from viz.page.rendering import banner, table
from viz.svg.axes import us
from viz.svg.elements import element
from viz.svg.heat_map import columns
from viz.svg.histogram import Named

_STAGES = ("total", "queue", "device")
_OWNERS = ("process", "others")


def latency_table(
    metrics: Mapping[str, float], ladder: Ladder | None, rx_lat_us: float | None, io: IoLatency | None
) -> Markup:
    """A query's latency from the client down to the device: by whom each is measured, and what lies between."""
    rows: list[tuple[str, float | None, float | None, float | None, str]] = []
    if "rx.lat" in metrics:
        rows.append(
            ("rx.lat, plain windows", metrics["rx.lat"] * 1e3, None, None, "threads x 1e6 / qps, nothing attached")
        )
    if ladder is not None and ladder.total.count:
        rows += _ladder_rows(ladder, rx_lat_us)
    if io is not None:
        reads = io.row("read", "process")
        for name, stage, about in (
            ("block layer, total", reads.total, "request begins to done, the process's reads (eBPF)"),
            ("block layer, queue", reads.queue, "request begins to driver: plug, IO scheduler"),
            ("device", reads.device, "driver to done"),
        ):
            rows.append((name, stage.mean_ns, stage.percentile(50), stage.percentile(99), f"iolat window: {about}"))
        if io.diskstats is not None and io.diskstats.inner.read.mean_ns is not None:
            mean = io.diskstats.inner.read.mean_ns
            rows.append(("io.lat, iolat window", mean, None, None, "diskstats of the same window, everybody's reads"))
    if "io.lat" in metrics:
        rows.append(("io.lat, plain windows", metrics["io.lat"] * 1e3, None, None, "diskstats, everybody's reads"))
    if len(rows) < 3:
        return Markup("")
    cells = [[name, us(mean), us(p50), us(p99), about] for name, mean, p50, p99, about in rows]
    heads = ["latency, us", "avg", "p50", "p99", "by whom, and of what"]
    legend = (
        "Windows of one run lie one after another, so lines of different windows differ by what changed in between. "
        "diskstats counts whole milliseconds of each request."
    )
    return table("From the client down to the device", heads, cells, "numbers noted", legend)


def _ladder_rows(
    ladder: Ladder, rx_lat_us: float | None
) -> list[tuple[str, float | None, float | None, float | None, str]]:
    total = ladder.total
    rows: list[tuple[str, float | None, float | None, float | None, str]] = []
    if ladder.start == "query":
        # Clients count the keys of a MultiGet.
        if ladder.kind == "get":
            by_engine = rx_lat_us if rx_lat_us is not None else ladder.seen_us
            whose = "the engine's own count" if rx_lat_us is not None else "the queries seen"
            rows.append(("rx.lat, ladder window", by_engine * 1e3, None, None, f"threads x 1e6 / qps by {whose}"))
        rows.append(("query, all", ladder.query_ns, None, None, "followed queries, cache hits too"))
    h = total.histogram
    rows.append(
        ("query that reads", total.mean_ns, h.percentile(50), h.percentile(99), "call to return, one read (ladder)")
    )
    inside = ("sys_pre", "queue", "device", "wake", "runq", "sys_post")
    call = sum(ladder.stage(name).sum_ns for name in inside) / total.count
    rows.append(("read call (pread64)", call, None, None, "system call: sys_pre to sys_post (ladder)"))
    block = sum(ladder.stage(name).sum_ns for name in ("queue", "device")) / total.count
    rows.append(("block layer, of followed", block, None, None, "queue + device (ladder)"))
    if ladder.device is not None and ladder.device.await_ns is not None:
        rows.append(("io.lat, ladder window", ladder.device.await_ns, None, None, "diskstats of the same window"))
    return rows


def io_panel(io: IoLatency) -> Markup:
    """Histograms, their table, and the reads over time."""
    series = _series(io)
    legend = (
        f"{io.backend}: {io.how}. Process: what the engine's process began; others: everybody else, and "
        "what the kernel writes later. Queue: start to driver. Device: from there to the end."
    )
    lost = sum(io.losses.values())
    told = Markup("")
    if lost:
        told = banner(
            "warn",
            f"{lost:,} of the window's events could not be counted: the check iolat losses says which, and what "
            "follows.",
        )
    told += histograms(f"Latency of requests to {io.device.name}", series, "requests", "io-latency.svg", legend)
    told += percentile_table("Latency of requests", series)
    for owner, whose in (("process", "the process"), ("others", "others")):
        if owner == "process" or io.row("read", owner).total.count >= 100:
            told += heat_map_figure(
                f"Latency of reads over time, {whose}",
                columns(io.slices, io.start_ns, owner),
                f"window iolat, {io.device.name}, {io.seconds:.1f} s",
                "Rows are latencies on a log scale, columns are stretches of the window; a read is in the stretch in "
                "which it ended. Colour by the logarithm of the number. "
                + element("span", "Arrow keys walk the cells while the plot has the focus.", class_="scripted"),
            )
    return told


def _series(io: IoLatency) -> Sequence[Named]:
    found = []
    operations = list(dict.fromkeys(["read", *(row.operation for row in io.rows)]))
    for operation in operations:
        for owner in _OWNERS:
            row = io.row(operation, owner)
            for stage in _STAGES if operation == "read" else ("total",):
                name = f"{operation}, {owner}, {stage}"
                about = {"total": "start to end", "queue": "start to driver", "device": "driver to end"}[stage]
                found.append(Named(name, about, getattr(row, stage)))
    return found
