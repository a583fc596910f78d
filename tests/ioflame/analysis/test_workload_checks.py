"""Did the workload do what it is for, can its profile be trusted, and what a run has for columns of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ground.results.categories import Categories, Category
from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.interval import Interval
from ground.results.record import Expectation, HostTimes, RoleCounters
from ioflame.analysis.categories import operations_of
from ioflame.analysis.checks.profile import profile_checks
from ioflame.analysis.checks.run import workload_checks
from ioflame.analysis.run_figures import run_figures
from tests.records import folded, profile_facts, window
from tests.viz import observers
from tests.viz.runs import record


def said(**changes: object) -> dict[str, Check]:
    return {check.name: check for check in workload_checks(record(**changes))}


def test_keys_that_are_not_there_are_another_workload_unless_it_asks_for_them() -> None:
    for found, expected, verdict in (
        (100, Expectation(), Verdict.OK), (99, Expectation(), Verdict.FAILED),
        (99, Expectation(missing_keys=True), Verdict.NOTE),
    ):  # fmt: skip
        checks = said(engine_result={"found": found, "reads": 100.0}, expected=expected)
        assert checks["keys found"].verdict is verdict
    # A client without a closing line is doubted where it reads.
    assert said(engine_result={})["keys found"].verdict is Verdict.WARN
    assert "keys found" not in said(engine_result={}, expected=Expectation(tree="changing"))


@pytest.mark.parametrize(
    ("database", "name", "verdict"),
    [
        (DatabaseFacts(data_bytes=4000, cache_size=100), "IO-bound", Verdict.OK),
        (DatabaseFacts(data_bytes=1000, cache_size=100), "IO-bound", Verdict.WARN),
        (DatabaseFacts(data_bytes=1000, cache_size=100, cached=True), "cached", Verdict.OK),
        (DatabaseFacts(direct=False), "page cache", Verdict.NOTE),
        (DatabaseFacts(direct=False, memory_limit=1000, data_bytes=2000), "page cache", Verdict.OK),
        (DatabaseFacts(direct=False, memory_limit=1000, data_bytes=1999), "page cache", Verdict.WARN),
    ],
)
def test_what_memory_answers_is_said(database: DatabaseFacts, name: str, verdict: Verdict) -> None:
    assert said(database=database)[name].verdict is verdict


def test_a_profile_without_weight_has_nothing_else_to_be_said_of() -> None:
    facts = profile_facts("cycles", samples=5000, weight=10**9, report_weight=10**9, ghz=3.0)
    (agreed,) = [check for check in profile_checks(facts, "3.0", {}) if check.name == "folded = perf report"]
    assert agreed.value == "1,000,000,000 cycles in both"
    empty = replace(facts, weight=0, report_weight=0, samples=0, ghz=None)
    found = {check.name: check.verdict for check in profile_checks(empty, "", {})}
    assert found["samples"] is Verdict.FAILED and "incomplete stacks" not in found


def test_every_figure_of_a_run_has_one_name() -> None:
    host = HostTimes(5, 10, 20, 60, 8, 2)
    roles = {"reader": RoleCounters(3_000_000, 2_000_000, 1_000_000, 1)}
    counted = {"queries": 1000, "cpu_ns": 3_000_000, "storage_read_bytes": 4096, "voluntary_switches": 7}
    plain = window("plain", 2.0, **counted, roles=roles, host=host)
    made = record(
        windows=[plain, window("perf", 5.0, queries=9), replace(plain, engine={"flushed_gb": 0.5})],
        metrics={"qps": 1000.0}, intervals={"qps": Interval(1000, 990, 1010, 9)},
        engine_result={"p99": 7.0, "qps": 1.0},
    )  # fmt: skip
    view = Categories(
        "owner", [], 4, [Category("LRU", "", 3, 75.0, 3, None, 1.5), Category("other", "", 1, 25.0, 1)], []
    )
    found = run_figures(made, {"owner": view}, observers.locks())
    assert (found["qps"], found["qps.low"], found["qps.high"], found["p99"]) == (1000, 990, 1010, 7)
    assert (found["owner.LRU"], "owner.other" in found, found["role.reader"]) == (1.5, False, 3.0)
    assert (found["window.seconds"], found["window.queries"], found["window.cpu_us"]) == (4.0, 2000, 6000)
    assert [found[f"window.{name}"] for name in ("all", "us", "cs", "flushed_gb")] == [200, 20, 10, 0.5]
    assert (found["window.device_read_kib"], found["window.switches"]) == (8, 14)
    assert (found["locks.total"], found["locks.waiting"]) == (10**9, 2 * 10**8)


def test_the_cpu_of_a_kind_of_operation_is_shared_out_over_those_that_there_were() -> None:
    views = {
        "operations": {"get": [0, 1], "scan": [2], "other": []},
        "owner": {"LRU": [0], "other": [1, 2]},
        "writes": {"WAL": [2], "other": [0, 1]},
    }
    profile = folded(views, [30, 10, 60])
    plain = window("plain", 2.0, cpu_ns=10_000_000, operations={"get": 1000.0})
    get, scan, other = operations_of(profile, [plain], "all")
    # 4 of 10 ms for 1,000 in two seconds
    assert (get.share, get.per_second, get.us, get.cores) == (40.0, 500.0, 4.0, 0.002)
    assert get.categories is not None
    rows = [(row.name, row.weight, row.us_per_query) for row in get.categories.rows]
    assert rows == [("LRU", 30, 3.0), ("other", 10, 1.0)]
    # Nothing counts scans, and there were no others.
    assert (scan.share, scan.per_second, scan.us, scan.categories, other.share) == (60.0, None, None, None, 0.0)
    # Of an operation that the owner view knows next to nothing of, the view of writes is shown.
    counted = window("plain", 2.0, cpu_ns=10_000_000, operations={"scan": 10.0})
    found = operations_of(profile, [counted], "all")[1].categories
    assert found is not None and found.view == "writes"


def test_a_profile_that_tells_no_operations_apart_has_none() -> None:
    plain = [window("plain", queries=1)]
    assert operations_of(folded({"owner": {"other": [0]}}, [10]), plain, "all") == []
    assert operations_of(folded({"operations": {"get": [0], "other": []}}, [10]), [], "all") == []
