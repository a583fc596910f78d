"""The headline figures of a run, from the counters of its windows.

Sums are divided by sums (never means of means): a figure over several windows is that of one window as long as all of
them. Names are those of the source documents; each has one line in `LEGEND`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ioflame.run import Window
from ioflame.stats import Interval, bootstrap_ratio

__all__ = ("LEGEND", "MODE_METRIC", "cpu_profiled", "metric_intervals", "window_metrics")

LEGEND: dict[str, str] = {
    "qps": "queries a second, by the engine's own count",
    "iops": "storage reads a second, by the device's counter (everybody's reads)",
    "usPer": "user CPU, us per query",
    "syPer": "system CPU, us per query",
    "cpuPer": "usPer + syPer, us per query; by the scheduler's clock",
    "cpuPerRead": "CPU, us per storage read",
    "reqsz": "KiB per storage read",
    "readsPerQuery": "storage reads per query",
    "io.lat": "us per storage read from its start to its end, by the device's counter (diskstats)",
    "rx.lat": "us per query as the client sees it: threads * 1e6 / qps",
    "csPer": "context switches of the process per query",
    "stealPct": "CPU time the hypervisor gave to others, % of one CPU",
}


# With fewer storage reads per query than this, CPU per read is no property of a read.
_FEW_READS = 0.05

# The CPU per query that the weights of an event are a part of, by the mode the event counts.
MODE_METRIC = {"all": "cpuPer", "user": "usPer", "kernel": "syPer"}


def cpu_profiled(metrics: Mapping[str, float], mode: str) -> tuple[float | None, float | None]:
    """CPU us per query and per storage read that a profile in `mode` divides up; None where it was not measured."""
    per_query, reads = metrics.get(MODE_METRIC[mode]), metrics.get("readsPerQuery")
    return per_query, per_query / reads if per_query is not None and reads and reads >= _FEW_READS else None


def metric_intervals(series: Iterable[Window]) -> dict[str, Interval]:
    """95 % intervals of the ratios among the figures, by bootstrap over the seconds of the plain windows.

    They hold what varies from second to second within this run, not what varies from run to run.
    """
    slices = [(w, w.counters, w.counters.queries) for w in series if w.kind == "plain" and w.counters.queries]
    queries = [q for _, _, q in slices]
    reads = [float(c.storage_reads) for _, c, _ in slices]
    ratios: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "qps": (queries, [w.seconds for w, _, _ in slices]),
        "iops": (reads, [w.seconds for w, _, _ in slices]),
        "usPer": ([c.user_ns / 1e3 for _, c, _ in slices], queries),
        "syPer": ([c.system_ns / 1e3 for _, c, _ in slices], queries),
        "cpuPer": ([c.cpu_ns / 1e3 for _, c, _ in slices], queries),
        "cpuPerRead": ([c.cpu_ns / 1e3 for _, c, _ in slices], reads),
        "io.lat": ([c.storage_read_ms * 1e3 for _, c, _ in slices], reads),
    }
    found = {name: bootstrap_ratio(parts, wholes) for name, (parts, wholes) in ratios.items()}
    return {name: interval for name, interval in found.items() if interval is not None}


def window_metrics(windows: Iterable[Window], threads: int) -> dict[str, float]:
    """The figures of `LEGEND` over all the windows together; a figure that cannot be had is left out.

    Windows whose edges the engine's report does not cover count for neither queries nor anything else.
    """
    covered = [(w, w.counters.queries) for w in windows if w.counters.queries]
    seconds = sum(w.seconds for w, _ in covered)
    queries = sum(q for _, q in covered)
    reads = sum(w.counters.storage_reads for w, _ in covered)
    cpu_us = sum(w.counters.cpu_ns for w, _ in covered) / 1e3
    if not queries or not seconds:
        return {}
    switches = sum(w.counters.voluntary_switches + w.counters.involuntary_switches for w, _ in covered)
    metrics = {
        "qps": queries / seconds,
        "iops": reads / seconds,
        "usPer": sum(w.counters.user_ns for w, _ in covered) / 1e3 / queries,
        "syPer": sum(w.counters.system_ns for w, _ in covered) / 1e3 / queries,
        "cpuPer": cpu_us / queries,
        "readsPerQuery": reads / queries,
        "rx.lat": threads * 1e6 * seconds / queries,
        "csPer": switches / queries,
        "stealPct": sum(w.counters.steal_ns for w, _ in covered) / 1e7 / seconds,
    }
    if reads / queries >= _FEW_READS:
        metrics["cpuPerRead"] = cpu_us / reads
        metrics["io.lat"] = sum(w.counters.storage_read_ms for w, _ in covered) * 1e3 / reads
        metrics["reqsz"] = sum(w.counters.storage_read_bytes for w, _ in covered) / reads / 1024
    return metrics
