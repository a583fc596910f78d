"""How sure the figures of a run are, from the seconds of its windows; and what a profile's weight is a part of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ground.results.interval import Interval
from ground.results.metrics import METRICS, MODE_COUNTER, few_reads, metrics_of, per_read, ratio_of, sums_of
from ground.results.record import CUT, ProfileFacts, RunRecord, Window
from ioflame.analysis.bootstrap import Draws, Resamples

__all__ = ("figures", "intervals_of", "metric_intervals", "slice_columns", "weight_by_time")

# Of a target cores have slices of their own: its seconds need not be counted.
_SCATTERED = [
    name for name, one in METRICS.items() if one.part and (one.headline or per_read(name)) and name != "cores"
]


def weight_by_time(profile: ProfileFacts, windows: Iterable[Window]) -> tuple[float | None, float | None]:
    """Coverage and effective GHz of a profile: its weight by the scheduler's CPU time of the perf windows.

    A weight in ns is a part of that time; a weight in cycles is the clock's rate. None where it is neither.
    """
    recorded = [window for window in windows if window.kind == "perf"]
    # Of a window that was cut, perf recorded more than its counters count.
    counted = [window.counters for window in recorded if CUT not in window.note]
    cpu_ns = sum(getattr(counters, MODE_COUNTER[profile.mode]) for counters in counted)
    ratio = profile.weight / cpu_ns if cpu_ns else None
    return (ratio if profile.unit == "ns" else None), (ratio if profile.unit == "cycles" else None)


def slice_columns(series: Iterable[Window], threads: int) -> list[dict[str, float]]:
    """What each second of the plain windows gained, for `Resamples`; seconds of unknown queries are left out."""
    return [sums_of([w], threads) for w in series if w.kind == "plain" and w.counters.queries]


def figures(resamples: Resamples) -> dict[str, Draws]:
    """The figures of a run, each the median over the repeats; those per read only where there are reads."""
    found = {name: resamples.median(partial(ratio_of, name)) for name in _SCATTERED}
    every = found["iops"].estimate / found["qps"].estimate if found["qps"].estimate else 0.0
    few = {"own_reads": few_reads(found["readsPerQuery"].estimate), "reads": few_reads(every)}
    return {name: draws for name, draws in found.items() if not (per_read(name) and few[METRICS[name].per])}


def intervals_of(record: RunRecord, series: Sequence[Window]) -> dict[str, Interval]:
    """95 % intervals of the figures of `metrics_of`."""
    found = metric_intervals(series, record.threads)
    if record.target is None:
        return found
    if not record.target.clients:
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
