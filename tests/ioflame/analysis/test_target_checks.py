"""What is said of the count of a target's queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from collectors.counts import Count, QueryCount
from ground.results.checks import Check, Verdict
from ground.results.interval import Interval
from ground.results.metrics import metrics_of
from ground.results.record import ENDED, RoleCounters, Target, Window
from ioflame.analysis.checks.target import target_checks
from ioflame.analysis.checks.windows import window_checks
from ioflame.analysis.metric_intervals import intervals_of
from tests.records import run_record, window


def count_check(seconds: list[float], lag: float) -> Check:
    """Of 100 queries a second, asked for at both edges of each window."""
    target = Target("--pid 1", "postgres", [1], count="psql", count_lag=lag)
    plain = []
    for length in seconds:
        count = QueryCount(Count("psql", iter((0.0, 100 * length)).__next__, lag))
        count.ask()
        # As if so long had passed since.
        count.known.moments[0] -= int(length * 1e9)
        count.ask()
        off = math.hypot(*map(count.off, count.known.moments))
        plain.append(window("plain", length, queries=100 * length, queries_sd=off))
    return next(check for check in target_checks(target, plain) if check.name == "count")


@pytest.mark.parametrize(
    ("seconds", "off"), [([6.0] * 4, "6.7"), ([1.0] * 4, "40.0"), ([20.0], "4.0"), ([3.0] * 7, "10.1")]
)
def test_what_old_answers_may_be_off_by_is_told(seconds: list[float], off: str) -> None:
    """By hand: 1.96 x sqrt(windows / 6) s of the sum."""
    assert f"up to 1 s old: +-{off} %" in count_check(seconds, 1.0).value


def test_only_what_makes_a_figure_doubtful_warns() -> None:
    assert count_check([6.0] * 4, 1.0).verdict is Verdict.OK
    assert count_check([1.0] * 4, 1.0).verdict is Verdict.WARN
    assert count_check([1.0] * 4, 0.0).value == "psql"


def test_the_intervals_of_what_queries_are_in_hold_what_their_count_cannot_tell() -> None:
    """By hand: 6 s of 100 queries with a deviation of 10 in each: 1.96 * 10 * sqrt(6) / 600 = 8.0 %."""
    plain = [window("plain", 1.0, "", 100 + at, queries=100, cpu_ns=10**9, queries_sd=10) for at in range(6)]
    record = run_record("w", windows=plain, target=Target("--pid 1", "p", [1], count="c"))
    found = intervals_of(record, plain)
    assert (found["qps"].low, found["qps"].high) == pytest.approx((92.0, 108.0), abs=0.01)
    assert found["cpuPer"].high == pytest.approx(10_800, abs=2) and found["cores"].high == 1


@pytest.mark.parametrize(("own", "verdict"), [(1040, Verdict.OK), (1600, Verdict.WARN)])
def test_whether_its_windows_were_slower_than_a_benchmark_is_said(own: float, verdict: Verdict) -> None:
    target = Target("--pid 1", "p", [1], count="c", client_qps=Interval(own, 0.9 * own, 1.1 * own, 8))
    plain = [window("plain", 2.0, queries=2000)]
    check = next(one for one in target_checks(target, plain) if one.name == "whole benchmark")
    assert check.verdict is verdict and f"{own:,.0f} queries a second" in check.value and "1,000, -" in check.value
    record = run_record("w", windows=plain, target=target)
    assert metrics_of(record, plain)["qps.client"] == own


def ended_check(windows: Sequence[Window], coverage: float | None = None, **facts: Any) -> Check:
    checks = target_checks(Target("--pid 1", "p", [1], **facts), windows, coverage)
    return next(check for check in checks if check.name == "ended processes")


def test_cpu_of_what_has_ended_is_said_and_its_switches_are_no_figure() -> None:
    own = {name: RoleCounters(ns, ns, 0, 0) for name, ns in (("server", 10**8), (ENDED, 9 * 10**8))}
    plain = window("plain", 1.0, queries=20, cpu_ns=10**9, user_ns=10**9, voluntary_switches=20)
    plain.counters.groups = own
    assert ended_check([plain]).verdict is Verdict.NOTE and ended_check([plain]).value.startswith("0.9 of 1.0 s of CPU")
    # The profile is of the rest of it.
    unsampled = ended_check([plain], 0.17)
    assert unsampled.verdict is Verdict.WARN and "17% was sampled" in unsampled.means
    target = Target("--pid 1", "p", [1], count="c")
    record = run_record("w", windows=[plain], target=target)
    assert metrics_of(record, [plain])["cpuPer"] == 50_000 and "csPer" not in metrics_of(record, [plain])
    plain.counters.groups = {"server": own["server"]}
    assert metrics_of(record, [plain])["csPer"] == 1


def test_a_process_whose_children_leave_no_counters_is_named() -> None:
    check = ended_check([], ignoring=[7])
    assert check.verdict is Verdict.WARN and check.value == "process 7 ignores SIGCHLD" and "--cgroup" in check.mend


def test_one_rate_for_all_windows_has_no_interval_and_no_drift() -> None:
    windows = [window("plain", 1.0, queries=100, cpu_ns=10**8, user_ns=10**8) for _ in range(3)]
    for sampled in (False, True):
        target = Target("--pid 1", "p", [1], count="11,174 calls of f in 1 s", count_sampled=sampled)
        record = run_record("w", windows=windows, target=target)
        names = {check.name for check in window_checks(record)}
        assert ("drift" in names) is not sampled and "queries" in names
    seconds = [window("plain", 1.0, cpu_ns=10**8) for _ in range(5)]  # as `AttachedWindows.series` has them
    assert set(intervals_of(record, seconds)) == {"cores"}
