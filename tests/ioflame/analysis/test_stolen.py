"""Recorded on a VM: in a window of 5 s 1.5 s were stolen, perf sampled 3.79 s, and the scheduler counted 2.56 s."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.categories import Categories, Category
from ground.results.checks import Check, Verdict
from ground.results.profile import Slices
from ground.results.record import RunRecord, Window
from ioflame.analysis.categories import categories_of, category_file
from ioflame.analysis.checks.stolen_time import quiet_slices, share_bounds, stolen_checks, stolen_of, stolen_weight
from ioflame.analysis.metric_intervals import weight_by_time
from tests.records import folded, profile_facts, run_record, window
from viz.tables.categories import categories_table
from viz.terminal.table import table_text

SAMPLED, RAN, STOLEN = 3_790_000_000, 2_560_000_000, 1_500_000_000
SECONDS = [window("perf", steal_ns=steal) for steal in (0, 1_200_000_000, 0, 300_000_000, 0)]


def recorded(event: str = "cpu-clock", stolen_ns: int = STOLEN, ran_ns: int = RAN) -> RunRecord:
    made = run_record()
    made.profile = profile_facts(event, samples=3790, weight=SAMPLED)
    made.windows = [window("plain", steal_ns=10**9), window("perf", 5.0, cpu_ns=ran_ns, steal_ns=stolen_ns)]
    made.profile.coverage, made.profile.ghz = weight_by_time(made.profile, made.windows)
    return made


def owners(*weights: int, slices: list[list[int]]) -> Categories:
    rows = [Category(f"part {i}", "", weight, 100 * weight / SAMPLED, 1) for i, weight in enumerate(weights)]
    return Categories("owner", [], SAMPLED, rows, [], slices)


def checks(made: RunRecord, series: list[Window] | None = None, slices: Slices | None = None) -> list[Check]:
    half = SAMPLED // 2
    # What is stolen goes to the first part; without it the three have 2, 1 and 1 of 4.
    view = owners(half, SAMPLED - half - 10**8, 10**8, slices=[[2, 1, 1], [90, 1, 1], [4, 2, 2], [40, 1, 1], [2, 1, 1]])
    return list(stolen_checks(made, SECONDS if series is None else series, view, slices))


def test_each_category_is_bounded_by_what_was_stolen() -> None:
    (check,) = checks(recorded())
    assert check.verdict is Verdict.WARN
    assert "took 1.50 s in the perf window, in 2 of its 5 seconds" in check.value
    assert "may hold 1.50 s of it, 39.6% of the weight" in check.value
    # By hand: 2.29 s ran. Half the weight is 1.895 s, of which 1.5 or none is stolen.
    assert "part 0 17.2..82.8 %" in check.means
    assert "part 2 0.0..4.4 %" in check.means
    # What was sampled and did not run is stolen whatever the hypervisor says: 3.79 s sampled, 2.56 s run.
    (check,) = checks(recorded(stolen_ns=0), [])
    assert "took 0.00 s in the perf window; samples hold 1.23 s more than the scheduler counted as run" in check.value
    # Of an interrupted run that may be the turn that was cut.
    interrupted = recorded(stolen_ns=0)
    interrupted.missing = ["rounds after the first 3 (interrupted)"]
    assert checks(interrupted, []) == [] and stolen_of(interrupted) == 0


@pytest.mark.parametrize("sliced", [True, False])
def test_the_tables_have_the_bounds_beside_the_interval(sliced: bool) -> None:
    """Half of the weight in each of two rows, of every second alike: a bootstrap sees no doubt at all."""
    each = SAMPLED // 10
    slices = Slices(10**9, 0, [i // 2 for i in range(10)], [i % 2 for i in range(10)], [each] * 10, [1] * 10)
    made = recorded()
    profile = folded({"owner": {"part 0": [0], "other": [1]}}, [5 * each] * 2, slices if sliced else None)
    table = categories_of(category_file(profile, "owner", stolen=stolen_of(made)))
    (check,) = stolen_checks(made, SECONDS, table, None)
    for row in table.rows:
        assert row.bounds is not None and "{} {:.1f}..{:.1f} %".format(row.name, *row.bounds) in check.means
        assert ((row.interval.low, row.interval.high) if row.interval else None) == ((50, 50) if sliced else None)
    assert categories_of(category_file(profile, "owner")).rows[0].bounds is None
    text = table_text(categories_table(table, "ns", ""), 120)
    assert " steal " in text and re.search(r"\b17\.[12]\d\.\.82\.\d\d", text)
    assert ("by how rounds differ" in text) is sliced


def test_nothing_is_said_where_no_sample_can_hold_stolen_time() -> None:
    assert checks(recorded("cycles")) == []
    assert checks(recorded(stolen_ns=70_000_000, ran_ns=SAMPLED)) == []
    made = recorded()
    made.profile = None
    assert checks(made) == []


def test_the_seconds_without_steal_are_told_apart() -> None:
    seconds = [
        replace(window("perf", steal_ns=steal), start_ns=at * 10**9, end_ns=(at + 1) * 10**9)
        for at, steal in enumerate((0, 1_200_000_000, 0, 300_000_000, 0))
    ]
    slices = Slices(10**9, 0, list(range(5)), [0] * 5, [1] * 5, [1] * 5)
    assert quiet_slices(slices, seconds) == [0, 2, 4]
    (check,) = checks(recorded(), seconds, slices)
    assert check.means.endswith("in the 3 of 5 seconds without steal: part 0 50.0 %, part 1 25.0 %, part 2 25.0 %")
    # A slice that reaches into a second with steal may hold some; one outside of the windows is not known.
    assert quiet_slices(replace(slices, start_ns=5 * 10**8), seconds) == [4]
    assert quiet_slices(replace(slices, start_ns=10**12), seconds) == []
    (check,) = checks(recorded(), seconds, replace(slices, start_ns=10**12))
    assert check.means.endswith("no second of the profile is known to be without steal")


@given(
    truth=st.lists(st.integers(0, 10**9), min_size=1, max_size=9).filter(any),
    taken=st.lists(st.integers(0, 10**9), min_size=9, max_size=9),
    elsewhere=st.integers(0, 10**9),
)
def test_the_true_share_lies_within_its_bounds(truth: list[int], taken: list[int], elsewhere: int) -> None:
    """Whatever ran and was stolen, in which category ever, and while others ran."""
    sampled = [ran + stolen for ran, stolen in zip(truth, taken, strict=False)]
    total, ran = sum(sampled), sum(truth)
    most = stolen_weight(total, ran, sum(taken[: len(truth)]) + elsewhere)
    assert total - ran <= most <= total
    for weight, own in zip(sampled, truth, strict=True):
        low, high = share_bounds(weight, total, most)
        assert low - 1e-9 <= own / ran <= high + 1e-9
    assert list(share_bounds(sampled[0], total, 0)) == pytest.approx([sampled[0] / total] * 2)
