"""The figures of a run, each once: name, unit, direction, what is divided by what, and the line that explains it.

Sums are divided by sums (never means of means): a figure over several windows is that of one window as long as all of
them. Names are those of the source documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ground.results.record import ENDED, Counters, RoleCounters, RunRecord, Window
from ground.results.roles import OTHER, READER, WRITER, query_role
from ground.text.titles import title_of

# Of the plain windows' rate: below it a window's figures are not those of the workload.
_UNDISTURBED = 0.9


@dataclass(frozen=True)
class Metric:
    """A figure of a run or of a comparison.

    part, per:  the sums of windows (`sums_of`) that it is the ratio of; "" of one that a comparison works out
    unit:       printed behind the number; "" of a count and of a ratio
    higher_is_worse: of latency, CPU and reads a query; not of a rate
    headline:   it is shown of each run, in the order of `METRICS`; first: and read first
    of:         of a comparison: the figure of a window that it is made of, where that has another name
    covariate:  the figure of the same window whose part is taken out
    absent:     what it means where a window has the figure and another has not
    title:      what an outsider calls it, of one that is shown of each run
    repeats_within: of a count, the part by which two of one build may differ; None of what is measured
    """

    name: str
    legend: str
    part: str = ""
    per: str = ""
    unit: str = ""
    digits: int = 2
    higher_is_worse: bool = True
    headline: bool = False
    first: bool = False
    of: str = ""
    covariate: str = ""
    absent: str = "it was not measured"
    title: str = ""
    repeats_within: float | None = None

    @property
    def figure(self) -> str:
        return self.of or self.name

    @property
    def form(self) -> str:
        """A format of its number: `{:,.0f}`."""
        return f"{{:{',' * (not self.digits)}.{self.digits}f}}"

    @property
    def form_with_unit(self) -> str:
        return f"{self.form} {self.unit}".rstrip()


METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
        Metric(
            "qps", "queries a second, by the engine's own count", "queries", "seconds",
            digits=0, higher_is_worse=False, headline=True, first=True, title="queries a second",
        ),
        Metric(
            "qps.client",
            "queries a second from the client's begin to its end, watched or not, by its own count; the interval is "
            "what is possible before its first report and after its last",
            digits=0, higher_is_worse=False, headline=True, first=True, absent="its end was not seen",
            title="queries a second of the whole benchmark",
        ),
        Metric(
            "iops", "storage reads a second, by the device's counter (others' reads too)", "reads", "seconds",
            digits=0, higher_is_worse=False, headline=True, title="storage reads a second",
        ),
        Metric(
            "rx.lat", "us per query as the client sees it: threads * 1e6 / qps", "thread_us", "queries", "us",
            headline=True, first=True, title=title_of("rx.lat"),
        ),
        Metric(
            "io.lat", "us per storage read from its start to its end, by the device's counter (diskstats)",
            "read_us", "reads", "us", headline=True, first=True, title=title_of("io.lat"),
        ),
        Metric(
            "usPer", "user CPU, us per query", "user_us", "queries", "us", headline=True, title=title_of("usPer"),
        ),
        Metric(
            "syPer", "system CPU, us per query", "system_us", "queries", "us", headline=True,
            title=title_of("syPer"),
        ),
        Metric(
            "cpuPer",
            "usPer + syPer, us per query; by the scheduler's clock; where something writes: of the query threads",
            "cpu_us", "queries", "us", headline=True, first=True, title=title_of("cpuPer"),
        ),
        Metric(
            "bgPer", "CPU of flushes and compactions, us per query; where something writes", "background_us", "queries",
            "us", absent="nothing was flushed or compacted in it", title=title_of("bgPer"),
        ),
        Metric("usPerRead", "user CPU, us per storage read", "user_us", "own_reads", "us"),
        Metric("syPerRead", "system CPU, us per storage read", "system_us", "own_reads", "us"),
        Metric(
            "cpuPerRead", "CPU, us per storage read", "cpu_us", "own_reads", "us", headline=True,
            title=title_of("cpuPerRead"),
        ),
        Metric(
            "readsPerQuery", "storage reads per query: the process's own, by its account of bytes", "own_reads",
            "queries", digits=3, headline=True, title=title_of("readsPerQuery"),
        ),
        Metric(
            "reqsz", "KiB per storage read", "read_kib", "reads", "KiB", headline=True, title=title_of("reqsz"),
        ),
        Metric("csPer", "context switches of the process per query", "switches", "queries"),
        Metric(
            "cores", "CPU cores that the target used, by the scheduler's clock", "cpu_seconds", "seconds",
            headline=True, first=True, title="CPU cores in use",
        ),
        Metric(
            "p99", "us within which 99 of 100 queries end, by the records of single queries (of their window)",
            unit="us", absent="no records of single queries", headline=True, title="99th percentile of a query",
        ),
        Metric("stealPct", "CPU time the hypervisor gave to others, % of one CPU", "steal_percent_seconds", "seconds"),
        # Regression adjustment (CUPED, Deng and others 2013) by the device's counters of the very same windows. One
        # covariate, not io.lat and readsPerQuery: the latter hardly varies from window to window, so for an arm that
        # truly reads more often the regression line would be extrapolated far beyond its points.
        Metric(
            "qps.adj", "qps at equal device time per query (readsPerQuery x io.lat)", of="qps",
            covariate="device.lat", digits=0, higher_is_worse=False,
        ),
        Metric(
            "engine.lat", "us per query that are not the device's: rx.lat - readsPerQuery x io.lat", unit="us",
            absent="reads overlap: readsPerQuery x io.lat is above rx.lat",
        ),
        # Of `ioflame count`. Another tree changes instructions by 0.1 %, code that lies elsewhere mispredictions.
        Metric("instructions", "instructions of an operation, counted", digits=0, repeats_within=1e-3),
        Metric(
            "mispredictions", "mispredicted branches of an operation, of a simulated predictor", repeats_within=1e-2
        ),
        Metric("qps.relative", "queries a second, against another version's in the same round", higher_is_worse=False),
    )
}  # fmt: skip
LEGEND: Mapping[str, str] = {name: one.legend for name, one in METRICS.items()}

# Columns of the table of windows; and of a target whose queries nothing counts.
WINDOW_COLUMNS = ("qps", "iops", "usPer", "syPer", "cpuPer", "csPer")
WINDOW_COLUMNS_UNCOUNTED = ("cores", "iops", "io.lat", "cpuPerRead")

# What a comparison looks at, in its order.
COMPARED: Mapping[str, Metric] = {
    name: METRICS[name]
    for name in ("qps", "qps.adj", "rx.lat", "engine.lat", "cpuPer", "usPer", "syPer", "bgPer", "readsPerQuery", "p99")
}
# Figures that an observer's window gives and a plain one does not.
OBSERVED = ("p99",)
# The user's question and the engine's: a comparison is done when both are decided.
DECIDING = ("qps", "cpuPer")
# Of flushes and compactions: it decides nothing, and is named where it changed.
BACKGROUND = "bgPer"

# With fewer storage reads per query than this, CPU per read is no property of a read.
_FEW_READS = 0.05
# Where queries are not counted: fewer a second.
_FEW_IOPS = 100
# Of the bytes read from the device; with fewer of its own, reads of the device are not those of a target.
_OWN_READS = 0.5
# Of a target's CPU: below, what ended between two looks changes no figure.
MOST_ENDED = 0.01
# The reads of the device, everybody's and the process's.
_OF_READS = ("reads", "own_reads")
# Figures of a target whose queries nothing counts.
_UNCOUNTED = ("iops", "stealPct")

# The CPU per query that the weights of an event are a part of, by the mode the event counts.
MODE_METRIC = {"all": "cpuPer", "user": "usPer", "kernel": "syPer"}
# The same of a window's counters, ns.
MODE_COUNTER = {"all": "cpu_ns", "user": "user_ns", "kernel": "system_ns"}


def query_cpu(counters: Counters) -> Counters | RoleCounters:
    """The CPU time that is the queries': of the whole process, or of the threads that send them where roles are known.

    Flushes, compactions and a writer beside the queries are rows of their own then.
    """
    return counters.roles[query_role(counters.roles)] if counters.roles else counters


def _background_ns(counters: Counters) -> int:
    return sum(own.cpu_ns for role, own in counters.roles.items() if role not in (READER, WRITER, OTHER))


def sums_of(windows: Iterable[Window], threads: int) -> dict[str, float]:
    """What windows add up to: seconds, counts, and times in the unit that a sum's name ends in."""
    windows = list(windows)

    def total(value: Callable[[Counters], float]) -> float:
        return sum(value(window.counters) for window in windows)

    seconds = sum(window.seconds for window in windows)
    return {
        "seconds": seconds,
        "thread_us": threads * 1e6 * seconds,
        "queries": total(lambda of: of.queries or 0.0),
        "reads": total(lambda of: of.storage_reads),
        "own_reads": total(lambda of: of.storage_reads * of.own_part),
        "read_us": total(lambda of: of.storage_read_ms) * 1e3,
        "read_kib": total(lambda of: of.storage_read_bytes) / 1024,
        "cpu_us": total(lambda of: query_cpu(of).cpu_ns) / 1e3,
        "user_us": total(lambda of: query_cpu(of).user_ns) / 1e3,
        "system_us": total(lambda of: query_cpu(of).system_ns) / 1e3,
        "background_us": total(_background_ns) / 1e3,
        "cpu_seconds": total(lambda of: of.cpu_ns) / 1e9,
        "switches": total(lambda of: of.voluntary_switches + of.involuntary_switches),
        "steal_percent_seconds": total(lambda of: of.steal_ns) / 1e7,
    }


def ratio_of(name: str, sums: Mapping[str, float]) -> float:
    """A figure of `METRICS` that has a part and a per; 0 where it would be divided by nothing."""
    one = METRICS[name]
    return sums[one.part] / sums[one.per] if sums[one.per] else 0.0


def per_read(name: str) -> bool:
    """Whether it is a figure of a storage read."""
    return METRICS[name].per in _OF_READS


def few_reads(reads_per_query: float) -> bool:
    """Whether figures per storage read are left out."""
    return reads_per_query < _FEW_READS


def window_metrics(windows: Iterable[Window], threads: int) -> dict[str, float]:
    """The figures of `METRICS` over all the windows together; a figure that cannot be had is left out.

    Windows whose edges the engine's report does not cover count for neither queries nor anything else.
    """
    sums = sums_of([window for window in windows if window.counters.queries], threads)
    if not sums["queries"] or not sums["seconds"]:
        return {}
    return {
        name: ratio_of(name, sums)
        for name, one in METRICS.items()
        if one.part
        and name != "cores"
        and not (per_read(name) and few_reads(sums[one.per] / sums["queries"]))
        and not (name == "bgPer" and not sums["background_us"])
    }


def metrics_of(record: RunRecord, windows: Iterable[Window]) -> dict[str, float]:
    """`window_metrics` of a run. Of a target that was attached to the cores too, and no latency where it is not known
    how many of its threads send queries. Where nothing counts its queries, the figures that are none of them."""
    if record.target is None:
        return window_metrics(windows, record.threads)
    windows = list(windows)
    sums = sums_of(windows, record.threads)
    metrics = window_metrics(windows, record.threads) if record.target.count else _without_queries(sums)
    if not record.target.clients:
        metrics.pop("rx.lat", None)
    if ended_seconds(windows) > MOST_ENDED * sums["cpu_seconds"]:
        metrics.pop("csPer", None)  # the kernel keeps no sum of switches
    own = sum(window.counters.process_read_bytes for window in windows)
    if own < _OWN_READS * 1024 * sums["read_kib"]:
        # The device's reads are others': they say nothing of this target.
        for name in [name for name in metrics if name == "readsPerQuery" or per_read(name)]:
            if name != "io.lat":
                del metrics[name]
    if sums["seconds"]:
        metrics["cores"] = ratio_of("cores", sums)
    if record.target.client_qps is not None:
        metrics["qps.client"] = record.target.client_qps.estimate
    return metrics


def ended_seconds(windows: Iterable[Window]) -> float:
    """CPU of what ended between two looks at a target."""
    return sum(own.cpu_ns for window in windows if (own := window.counters.groups.get(ENDED))) / 1e9


def _without_queries(sums: Mapping[str, float]) -> dict[str, float]:
    if not sums["seconds"]:
        return {}
    metrics = {name: ratio_of(name, sums) for name in _UNCOUNTED}
    # Fewer, and they are none of what it does.
    if metrics["iops"] >= _FEW_IOPS:
        metrics |= {name: ratio_of(name, sums) for name in METRICS if per_read(name) and sums[METRICS[name].per]}
    return metrics


class Carried(NamedTuple):
    """rate: its queries a second, of theirs; None where that is not known

    factor: from a time in the window to that of the plain ones; 1 where it is not carried over
    is_disturbed: the workload ran slower in it, and neither chance nor a host that changed by itself may be why
    """

    rate: float | None
    factor: float
    is_disturbed: bool = False

    @property
    def words(self) -> str:
        if self.rate is None or not self.is_disturbed:
            return ""
        return f" That window was disturbed: it ran at {100 * self.rate:.0f} % of the baseline windows' rate."


def has_one_rate(record: RunRecord) -> bool:
    """Whether queries were counted once for a while: of all windows it is the same rate then, which says nothing of one
    against another."""
    return record.target is not None and record.target.count_sampled


def host_changed(record: RunRecord) -> bool:
    """Whether QPS changed by itself, with nothing attached."""
    return record.host_change is not None and record.host_change.qps_ratio.leaves_one


def carried(record: RunRecord, kind: str) -> Carried:
    """Of the windows of an observer. A rate that was counted once is that of all windows."""
    plain, seen = (
        window_metrics([window for window in record.windows if window.kind == one], record.threads).get("qps")
        for one in ("plain", kind)
    )
    if not plain or not seen or has_one_rate(record):
        return Carried(None, 1.0)
    rate = seen / plain
    cost = next((one for one in record.costs if one.kind == kind), None)
    by_itself = (cost is not None and not cost.qps_ratio.leaves_one) or host_changed(record)
    disturbed = rate < _UNDISTURBED and not by_itself
    return Carried(rate, 1.0 if disturbed else rate, disturbed)
