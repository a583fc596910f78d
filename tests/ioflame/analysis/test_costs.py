from __future__ import annotations

import pytest

from ground.results.record import Window
from ioflame.analysis.observer_costs import observer_costs
from tests.records import window


def run_of(*rates: tuple[str, list[float]]) -> tuple[list[Window], list[Window]]:
    """Windows and their slices of a second: (kind, queries in each second)."""
    windows, series, at = [], [], 0
    for kind, seconds in rates:
        start = at
        for queries in seconds:
            series.append(window(kind, 1, "", at, queries=queries))
            at += 1
        windows.append(window(kind, at - start, "", start, queries=sum(seconds)))
        at += 1  # attaching takes time, which belongs to no window
    return windows, series


def test_each_observer_is_held_against_the_plain_windows_beside_it_alone() -> None:
    costs = observer_costs(
        *run_of(
            ("warm-up", [1.0] * 5),
            ("plain", [100.0] * 5),
            ("perf", [90.0] * 5),
            ("plain", [100.0] * 5),
            ("ladder", [160.0] * 5),
            ("plain", [300.0] * 5),
        )
    )
    assert [(c.kind, c.qps_ratio.estimate) for c in costs] == [("perf", 0.9), ("ladder", 0.8)]
    # Seconds that do not differ leave no doubt.
    assert (costs[0].qps_ratio.low, costs[0].qps_ratio.high) == (0.9, 0.9)


def test_seconds_that_scatter_widen_the_interval_around_the_estimate() -> None:
    plain, on = [90.0, 110.0] * 5, [80.0, 100.0] * 5
    (cost,) = observer_costs(*run_of(("plain", plain), ("null", on), ("plain", plain)))
    assert cost.qps_ratio.estimate == pytest.approx(0.9)
    assert 0.8 < cost.qps_ratio.low < 0.88
    assert 0.92 < cost.qps_ratio.high < 1.0


def test_too_few_seconds_give_no_cost_and_uncounted_ones_do_not_count() -> None:
    windows, series = run_of(("plain", [100.0] * 5), ("perf", [90.0] * 2), ("plain", [100.0] * 5))
    assert observer_costs(windows, series) == []
    windows, series = run_of(("plain", [100.0] * 5), ("perf", [90.0] * 5), ("plain", [100.0] * 5))
    series[6].counters.queries = None
    assert observer_costs(windows, series)[0].qps_ratio.n == 4
