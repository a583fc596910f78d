from __future__ import annotations

from dataclasses import replace

import pytest

from ground.results.metrics import LEGEND, window_metrics
from ioflame.analysis.bootstrap import Resamples
from ioflame.analysis.categories import cpu_profiled
from ioflame.analysis.metric_intervals import figures, metric_intervals, slice_columns, weight_by_time
from tests.records import profile_facts, run_record, window


def test_one_window_by_hand() -> None:
    """Of 10,000 reads half are others', by their bytes."""
    one = window(
        "plain", 2.0, queries=20_000, storage_reads=10_000, storage_read_bytes=10_000 * 8192, storage_read_ms=1_200,
        cpu_ns=800_000_000, user_ns=600_000_000, system_ns=200_000_000, voluntary_switches=9_000,
        involuntary_switches=1_000, steal_ns=20_000_000, process_read_bytes=5_000 * 8192,
    )  # fmt: skip
    metrics = window_metrics([one], threads=4)
    assert metrics == pytest.approx({
        "qps": 10_000, "iops": 5_000, "usPer": 30.0, "usPerRead": 120.0, "syPerRead": 40.0, "syPer": 10.0,
        "cpuPer": 40.0, "cpuPerRead": 160.0, "readsPerQuery": 0.25, "reqsz": 8.0, "io.lat": 120.0, "rx.lat": 400.0,
        "csPer": 0.5, "stealPct": 1.0,
    })  # fmt: skip
    assert metrics.keys() <= LEGEND.keys()
    assert cpu_profiled(run_record(metrics=metrics)) == (40.0, 160.0)
    # All are others': there is no figure per read of its own, and the device's are what they were.
    none = window_metrics([replace(one, counters=replace(one.counters, process_read_bytes=0))], threads=4)
    assert metrics.keys() - none.keys() == {"usPerRead", "syPerRead", "cpuPerRead"}
    assert (none["iops"], none["io.lat"], none["readsPerQuery"]) == (5_000, 120.0, 0.0)
    assert cpu_profiled(run_record(metrics=none)) == (40.0, None)


def test_windows_are_pooled_by_sums_not_by_means() -> None:
    short = window("plain", 1.0, queries=1_000, cpu_ns=10_000_000)
    long = window("plain", 3.0, queries=9_000, cpu_ns=30_000_000)
    metrics = window_metrics([short, long], threads=1)
    assert metrics["qps"] == pytest.approx(2_500)  # the mean of the two rates would be 2,000
    assert metrics["cpuPer"] == pytest.approx(4.0)  # the mean of 10.0 and 3.33 would be 6.67


@pytest.mark.parametrize(
    ("event", "mode", "per_query"),
    [
        ("cycles", "all", 40.0),
        ("cycles:ppp", "all", 40.0),
        ("cpu-clock:u", "user", 30.0),
        ("cycles:uH", "user", 30.0),
        ("cycles:k", "kernel", 10.0),
        ("cycles:uk", "all", 40.0),
        ("sched:sched_switch", "all", 40.0),
    ],
)
def test_a_profile_divides_up_only_the_cpu_that_its_event_counts(event: str, mode: str, per_query: float) -> None:
    assert profile_facts(event).mode == mode
    metrics = {"cpuPer": 40.0, "usPer": 30.0, "syPer": 10.0, "readsPerQuery": 0.5}
    made = run_record(metrics=metrics, profile=profile_facts(event))
    assert cpu_profiled(made) == (per_query, 2 * per_query)
    assert cpu_profiled(replace(made, metrics={})) == (None, None)
    assert cpu_profiled(replace(made, metrics={**metrics, "readsPerQuery": 0.01})) == (per_query, None)


def test_the_effective_clock_is_cycles_by_cpu_time_of_the_same_window() -> None:
    """The source document's own: 4.64e9 cycles in 10 s of which 1.59 s were on a CPU are 2.9 GHz."""
    windows = [
        window("plain", 10.0, cpu_ns=9_000_000_000),
        window("perf", 10.0, cpu_ns=1_590_000_000, user_ns=990_000_000, system_ns=600_000_000),
    ]
    cycles = profile_facts("cycles", frequency=333, weight=4_640_000_000)
    coverage, ghz = weight_by_time(cycles, windows)
    assert (coverage, round(ghz or 0, 2)) == (None, 2.92)
    cycles.event = "cycles:u"
    assert weight_by_time(cycles, windows)[1] == pytest.approx(4.64 / 0.99)
    clock = profile_facts(weight=1_431_000_000)
    assert weight_by_time(clock, windows)[0] == pytest.approx(0.9)
    assert weight_by_time(clock, windows)[1] is None
    assert weight_by_time(clock, windows[:1]) == (None, None)


def test_intervals_rest_on_the_seconds_of_the_plain_windows_alone() -> None:
    seconds = [window("plain", queries=900 + 20 * i, cpu_ns=10**7, storage_reads=1000) for i in range(10)]
    noise = [window("perf", queries=1), window("plain")]
    intervals = metric_intervals([*seconds, *noise], threads=1)
    qps = intervals["qps"]
    assert (qps.estimate, qps.n) == (990.0, 10)
    assert 900 <= qps.low < 990 < qps.high <= 1080
    assert intervals["cpuPerRead"].low == intervals["cpuPerRead"].high == 10.0
    assert metric_intervals(seconds[:4], threads=1) == {}
    assert metric_intervals([], threads=1) == {}


def test_figures_over_repeats_are_medians_and_vary_as_the_repeats_do() -> None:
    """Three repeats without any noise within: what is left of doubt is what they differ by."""

    def repeat(queries: int) -> list[dict[str, float]]:
        made = window("plain", queries=queries, cpu_ns=10**7, storage_reads=1000, storage_read_ms=90)
        return slice_columns([made] * 6, threads=2)

    of_three = figures(Resamples([repeat(1000), repeat(1300), repeat(1100)]))
    assert of_three["qps"].estimate == 1100
    assert of_three["rx.lat"].estimate == pytest.approx(2e6 / 1100)
    interval = of_three["qps"].interval()
    assert interval is not None and (interval.low, interval.high, interval.n) == (1000, 1300, 18)
    io_lat = of_three["io.lat"].interval()
    assert io_lat is not None and io_lat.low == io_lat.high == 90.0
    assert figures(Resamples([repeat(10**6)])).keys().isdisjoint({"cpuPerRead", "io.lat", "reqsz"})


def test_windows_without_queries_and_figures_per_read_without_reads_are_left_out() -> None:
    known = window("plain", queries=1_000, cpu_ns=10_000_000, storage_reads=500)
    unknown = window("plain", cpu_ns=99_000_000_000, storage_reads=10**9)
    assert window_metrics([known, unknown], 1) == window_metrics([known], 1)
    assert window_metrics([unknown], 1) == {} == window_metrics([], 1)
    metrics = window_metrics([window("plain", queries=1000, cpu_ns=10, storage_reads=10)], 1)
    assert metrics and metrics.keys().isdisjoint({"cpuPerRead", "reqsz"})
