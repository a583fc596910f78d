"""How sure the figures of a run are: by the rounds of its turns, or by the seconds of its windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ground.results.interval import Interval
from ground.results.metrics import METRICS, MODE_COUNTER, few_reads, metrics_of, per_read, ratio_of, sums_of
from ground.results.record import CUT, ProfileFacts, RunRecord, Window
from ioflame.analysis.bootstrap import Draws, Resamples
from ioflame.analysis.rounds import FEWEST, Sums, by_round, interval_of, plain_parts

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
    """95 % intervals of the figures of `metrics_of`: how they vary from round to round, and where queries are in them
    what their count cannot tell."""
    plain = [window for window in record.windows if window.kind == "plain"]
    off = count_off(plain)
    parts = [*plain_parts(plain, record.threads).values()]
    measured = _by_parts(parts) if len(parts) >= FEWEST else metric_intervals(series, record.threads)
    found = {name: _from_zero(_widened(name, one, off)) for name, one in measured.items()}
    if record.target is None:
        return found
    if record.target.client_qps is not None:
        found["qps.client"] = record.target.client_qps
    if not record.target.clients:
        found.pop("rx.lat", None)
    turns = [sums_of(windows, record.threads) for windows in by_round(plain, "plain").values()]
    cores = interval_of(turns, partial(ratio_of, "cores"))
    known = metrics_of(record, [window for window in series if window.kind == "plain"])
    found |= {"cores": _from_zero(cores)} if cores is not None else {}
    return {name: interval for name, interval in found.items() if name in known}


def _by_parts(parts: Sequence[Sums]) -> dict[str, Interval]:
    """Of plain turns by their rounds, or of plain windows. Those of a read only where there are reads."""
    found = {name: interval_of(parts, partial(ratio_of, name)) for name in _SCATTERED}
    whole = {name: sum(part[name] for part in parts) for name in ("queries", "reads", "own_reads")}
    few = {name: few_reads(whole[name] / whole["queries"]) for name in ("reads", "own_reads")}
    return {name: one for name, one in found.items() if one and not (per_read(name) and few[METRICS[name].per])}


def _from_zero(interval: Interval) -> Interval:
    """None of these figures is below 0, where the lower end comes out of few rounds that differ much."""
    return replace(interval, low=max(interval.low, 0.0))


def count_off(windows: Sequence[Window]) -> float:
    """By how much the queries of some windows together may be off, 95 %, as a part of them."""
    queries = sum(window.counters.queries or 0.0 for window in windows)
    return 1.96 * math.hypot(*(window.counters.queries_sd for window in windows)) / queries if queries else 0.0


def _widened(name: str, interval: Interval, off: float) -> Interval:
    """off: a part of the queries"""
    if "queries" not in (METRICS[name].part, METRICS[name].per):
        return interval
    more = off * interval.estimate
    low, high = (math.hypot(end - interval.estimate, more) for end in (interval.low, interval.high))
    return Interval(interval.estimate, interval.estimate - low, interval.estimate + high, interval.n)


def metric_intervals(series: Iterable[Window], threads: int) -> dict[str, Interval]:
    """95 % intervals of the figures of one run, by bootstrap over the seconds of its plain windows.

    They hold what varies from second to second within this run, not what varies from run to run.
    """
    slices = slice_columns(series, threads)
    found = {name: draws.interval() for name, draws in figures(Resamples([slices])).items()} if slices else {}
    return {name: interval for name, interval in found.items() if interval is not None}
