"""The headline figures of a run, from the counters of its windows.

Sums are divided by sums (never means of means): a figure over several windows is that of one window as long as all of
them. Names are those of the source documents; each has one line in `LEGEND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ground.results.interval import Interval
from ground.results.record import ENDED, Counters, ProfileFacts, RoleCounters, RunRecord, Window
from ioflame.analysis.bootstrap import Draws, Resamples
from ioflame.analysis.roles import query_role

__all__ = (
    "LEGEND",
    "MODE_COUNTER",
    "MODE_METRIC",
    "MOST_ENDED",
    "cpu_profiled",
    "ended_seconds",
    "figures",
    "intervals_of",
    "metric_intervals",
    "metrics_of",
    "slice_columns",
    "weight_by_time",
    "window_metrics",
)

LEGEND: dict[str, str] = {
    "qps": "queries a second, by the engine's own count",
    "iops": "storage reads a second, by the device's counter (everybody's reads)",
    "usPer": "user CPU, us per query",
    "syPer": "system CPU, us per query",
    "cpuPer": "usPer + syPer, us per query; by the scheduler's clock; where something writes: of the query threads",
    "cpuPerRead": "CPU, us per storage read",
    "reqsz": "KiB per storage read",
    "readsPerQuery": "storage reads per query",
    "io.lat": "us per storage read from its start to its end, by the device's counter (diskstats)",
    "rx.lat": "us per query as the client sees it: threads * 1e6 / qps",
    "csPer": "context switches of the process per query",
    "cores": "CPU cores that the target used, by the scheduler's clock",
    "stealPct": "CPU time the hypervisor gave to others, % of one CPU",
}


# With fewer storage reads per query than this, CPU per read is no property of a read.
_FEW_READS = 0.05
# Where queries are not counted: fewer a second.
_FEW_IOPS = 100
# Of the bytes read from the device; with fewer of its own, reads of the device are not those of a target.
_OWN_READS = 0.5

# Of a target's CPU: below, what ended between two looks changes no figure.
MOST_ENDED = 0.01

# The CPU per query that the weights of an event are a part of, by the mode the event counts.
MODE_METRIC = {"all": "cpuPer", "user": "usPer", "kernel": "syPer"}
# The same of a window's counters, ns.
MODE_COUNTER = {"all": "cpu_ns", "user": "user_ns", "kernel": "system_ns"}


def cpu_profiled(metrics: Mapping[str, float], mode: str) -> tuple[float | None, float | None]:
    """CPU us per query and per storage read that a profile in `mode` divides up; None where it was not measured."""
    per_query, reads = metrics.get(MODE_METRIC[mode]), metrics.get("readsPerQuery")
    if per_query is None:
        return None, metrics.get("cpuPerRead") if mode == "all" else None
    return per_query, per_query / reads if reads and reads >= _FEW_READS else None


def query_cpu(counters: Counters) -> Counters | RoleCounters:
    """The CPU time that is the queries': of the whole process, or of the threads that send them where roles are known.

    Flushes, compactions and a writer beside the queries are rows of their own then.
    """
    return counters.roles[query_role(counters.roles)] if counters.roles else counters


def weight_by_time(profile: ProfileFacts, windows: Iterable[Window]) -> tuple[float | None, float | None]:
    """Coverage and effective GHz of a profile: its weight by the scheduler's CPU time of the perf windows.

    A weight in ns is a part of that time; a weight in cycles is the clock's rate. None where it is neither.
    """
    counted = [w.counters for w in windows if w.kind == "perf"]
    cpu_ns = sum(getattr(counters, MODE_COUNTER[profile.mode]) for counters in counted)
    ratio = profile.weight / cpu_ns if cpu_ns else None
    return (ratio if profile.unit == "ns" else None), (ratio if profile.unit == "cycles" else None)


# Figures that are ratios of what a slice gained; the names of `slice_columns`.
RATIOS: dict[str, tuple[str, str]] = {
    "qps": ("queries", "seconds"),
    "iops": ("reads", "seconds"),
    "rx.lat": ("thread_us", "queries"),
    "usPer": ("user_us", "queries"),
    "syPer": ("system_us", "queries"),
    "cpuPer": ("cpu_us", "queries"),
    "usPerRead": ("user_us", "reads"),
    "syPerRead": ("system_us", "reads"),
    "cpuPerRead": ("cpu_us", "reads"),
    "readsPerQuery": ("reads", "queries"),
    "io.lat": ("read_us", "reads"),
    "reqsz": ("read_kib", "reads"),
}


def slice_columns(series: Iterable[Window], threads: int) -> list[dict[str, float]]:
    """What each second of the plain windows gained, for `Resamples`; seconds of unknown queries are left out."""
    return [
        {
            "seconds": w.seconds,
            "thread_us": threads * w.seconds * 1e6,
            "queries": w.counters.queries,
            "reads": float(w.counters.storage_reads),
            "read_us": w.counters.storage_read_ms * 1e3,
            "read_kib": w.counters.storage_read_bytes / 1024,
            "cpu_us": query_cpu(w.counters).cpu_ns / 1e3,
            "user_us": query_cpu(w.counters).user_ns / 1e3,
            "system_us": query_cpu(w.counters).system_ns / 1e3,
        }
        for w in series
        if w.kind == "plain" and w.counters.queries
    ]


def figures(resamples: Resamples) -> dict[str, Draws]:
    """The figures of `RATIOS`, each the median over the repeats; those per read only where there are reads."""

    def ratio(part: str, whole: str) -> Callable[[Mapping[str, float]], float]:
        return lambda totals: totals[part] / totals[whole] if totals[whole] else 0.0

    found = {name: resamples.median(ratio(*names)) for name, names in RATIOS.items()}
    few = found["readsPerQuery"].estimate < _FEW_READS
    return {name: draws for name, draws in found.items() if not (few and RATIOS[name][1] == "reads")}


def intervals_of(record: RunRecord, series: Sequence[Window]) -> dict[str, Interval]:
    """95 % intervals of the figures of `metrics_of`."""
    found = metric_intervals(series, record.threads)
    if record.target is None:
        return found
    found.pop("rx.lat", None)
    slices = [{"us": w.seconds * 1e6, "cpu_us": w.counters.cpu_ns / 1e3} for w in series if w.kind == "plain"]
    cores = Resamples([slices]).median(lambda sums: sums["cpu_us"] / sums["us"]).interval() if slices else None
    known = metrics_of(record, [window for window in series if window.kind == "plain"])
    found |= {"cores": cores} if cores is not None else {}
    return {name: interval for name, interval in found.items() if name in known}


def metric_intervals(series: Iterable[Window], threads: int) -> dict[str, Interval]:
    """95 % intervals of the figures of one run, by bootstrap over the seconds of its plain windows.

    They hold what varies from second to second within this run, not what varies from run to run.
    """
    slices = slice_columns(series, threads)
    found = {name: draws.interval() for name, draws in figures(Resamples([slices])).items()} if slices else {}
    return {name: interval for name, interval in found.items() if interval is not None}


def metrics_of(record: RunRecord, windows: Iterable[Window]) -> dict[str, float]:
    """`window_metrics` of a run. Of a target that was attached to the cores too, and no latency: how many of its
    threads send queries is not known. Where nothing counts its queries, the figures that are none of them."""
    if record.target is None:
        return window_metrics(windows, record.threads)
    windows = list(windows)
    metrics = window_metrics(windows, record.threads) if record.target.count else _without_queries(windows)
    metrics.pop("rx.lat", None)
    if ended_seconds(windows) > MOST_ENDED * sum(w.counters.cpu_ns for w in windows) / 1e9:
        metrics.pop("csPer", None)  # the kernel keeps no sum of switches
    own = sum(w.counters.process_read_bytes for w in windows)
    if own < _OWN_READS * sum(w.counters.storage_read_bytes for w in windows):
        # The device's reads are others': they say nothing of this target.
        for name in ("cpuPerRead", "readsPerQuery", "reqsz"):
            metrics.pop(name, None)
    if seconds := sum(w.seconds for w in windows):
        metrics["cores"] = sum(w.counters.cpu_ns for w in windows) / 1e9 / seconds
    return metrics


def ended_seconds(windows: Iterable[Window]) -> float:
    """CPU of what ended between two looks at a target."""
    return sum(own.cpu_ns for w in windows if (own := w.counters.groups.get(ENDED))) / 1e9


def _without_queries(windows: Sequence[Window]) -> dict[str, float]:
    seconds = sum(w.seconds for w in windows)
    reads = sum(w.counters.storage_reads for w in windows)
    if not seconds:
        return {}
    metrics = {"iops": reads / seconds, "stealPct": sum(w.counters.steal_ns for w in windows) / 1e7 / seconds}
    # Fewer, and they are none of what it does.
    if reads / seconds >= _FEW_IOPS:
        metrics["cpuPerRead"] = sum(w.counters.cpu_ns for w in windows) / 1e3 / reads
        metrics["io.lat"] = sum(w.counters.storage_read_ms for w in windows) * 1e3 / reads
        metrics["reqsz"] = sum(w.counters.storage_read_bytes for w in windows) / reads / 1024
    return metrics


def window_metrics(windows: Iterable[Window], threads: int) -> dict[str, float]:
    """The figures of `LEGEND` over all the windows together; a figure that cannot be had is left out.

    Windows whose edges the engine's report does not cover count for neither queries nor anything else.
    """
    covered = [(w, w.counters.queries) for w in windows if w.counters.queries]
    seconds = sum(w.seconds for w, _ in covered)
    queries = sum(q for _, q in covered)
    reads = sum(w.counters.storage_reads for w, _ in covered)
    cpu_us = sum(query_cpu(w.counters).cpu_ns for w, _ in covered) / 1e3
    if not queries or not seconds:
        return {}
    switches = sum(w.counters.voluntary_switches + w.counters.involuntary_switches for w, _ in covered)
    metrics = {
        "qps": queries / seconds,
        "iops": reads / seconds,
        "usPer": sum(query_cpu(w.counters).user_ns for w, _ in covered) / 1e3 / queries,
        "syPer": sum(query_cpu(w.counters).system_ns for w, _ in covered) / 1e3 / queries,
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
