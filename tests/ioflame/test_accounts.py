"""Accounts of a window by units of work, which add up, and of a comparison, with changes and a verdict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ground.results.accounts import ACCOUNTS, Account, Accounts, accounts_in
from ground.results.comparison import ComparisonRun
from ground.results.differences import Outcome
from ground.results.files import Files
from ground.results.run import Run, open_run
from ground.system.atomic_files import write_json
from ioflame.analysis.compare.verdict import Costs, VerdictRule
from ioflame.analysis.jobs import job_costs
from ioflame.stages.comparison import accounts_of, observed_decisions, verdicts_of
from ioflame.stages.observed import note_accounts
from tests import background_jobs
from tests.ioflame.store.stored import made_comparison
from tests.records import run_record, window
from tests.tails import tail
from tests.viz import observers

QUERIES = 2_000


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path, run_record(windows=[window("requests", 5, queries=QUERIES)]))
    for name, result in observers.results().items():
        write_json(made.directory / name, result)
    write_json(made.path(Files.LADDER), observers.of_several(observers.ladder()))
    # What the programs themselves left is beside what followed from it.
    for name in (Files.RECORDED, Files.REQUESTS):
        made.path(name).write_text("{}")
    costs = job_costs(background_jobs.recorded(), background_jobs.windows(), "write", background_jobs.samples(), [])
    write_json(made.path(Files.JOB_COSTS), costs)
    return made


def test_accounts_add_up_to_what_they_are_of(run: Run) -> None:
    note_accounts(run)
    found = {one.name: one for one in accounts_in(run.directory)}
    of_several = observers.of_several(observers.ladder())
    writes, attribution = observers.write_ladder(), observers.attribution()
    assert found["ladder"].by_work()["all"] == pytest.approx(of_several.total.mean_ns / 1e3)
    assert found["several"].by_work()["all"] == pytest.approx(300)
    assert found["writepath"].by_work()["all"] == pytest.approx(writes.total_ns / writes.finished / 1e3)
    # Followers wait for the sync of their leaders: it is a row of the queue, beside that of the leaders themselves.
    rows = found["writepath"].by_work()
    assert rows["queue: log sync: file system"] == pytest.approx((100 * 30 + 200 * 300) / 300)
    assert rows["log sync: file system"] == pytest.approx(100 * 290 / 300)
    assert found["groups"].by_work()["groups"] == pytest.approx(1 / 3)
    assert found["slow"].by_work()["all"] == pytest.approx(tail().tail.mean_us)
    own = [row for row in attribution.rows if row.owner != "others"]
    assert found["reads"].all == sum(row.requests for row in own if row.operation == "read")
    assert found["reads"].work == QUERIES
    assert found["written"].all == pytest.approx(sum(row.bytes for row in own if row.operation == "write") / 1024)
    assert list(found) == [name for name in ACCOUNTS if name in found]


def test_jobs_are_told_by_query_and_by_mib(run: Run) -> None:
    note_accounts(run)
    found = {one.name: one for one in accounts_in(run.directory)}
    costs = job_costs(background_jobs.recorded(), background_jobs.windows(), "write", background_jobs.samples(), [])
    told = {one.kind: one.us_per_query for one in costs.totals}
    assert {name: us for name, us in found["jobs"].by_work().items() if name != "all"} == pytest.approx(told)
    for kind in {one.kind for one in costs.cpu} & set(ACCOUNTS):
        of_kind = [one for one in costs.cpu if one.kind == kind]
        mib = sum(one.bytes_out for one in of_kind) / (1 << 20)
        assert found[kind].by_work()["all"] == pytest.approx(sum(one.ns for one in of_kind) / 1e3 / mib)


def test_the_99th_percentile_is_a_figure_of_the_run_with_its_interval(run: Run) -> None:
    note_accounts(run)
    run.save()
    record = open_run(run.directory).record
    at = tail().threshold
    assert record.metrics["p99"] == at.ns / 1e3
    assert (record.intervals["p99"].low, record.intervals["p99"].high) == (at.low_ns / 1e3, at.high_ns / 1e3)


def test_without_results_there_is_no_file(run: Run) -> None:
    note_accounts(run)
    assert run.path(Files.ACCOUNTS).exists()
    for name in (*observers.results(), Files.RECORDED, Files.REQUESTS, Files.JOB_COSTS):
        run.path(name).unlink(missing_ok=True)
    note_accounts(run)
    assert not run.path(Files.ACCOUNTS).exists()


def test_a_window_without_a_count_of_queries_has_no_requests_by_query(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record(windows=[window("requests", 5)]))
    write_json(run.path(Files.REQUEST_ATTRIBUTION), observers.attribution())
    run.path(Files.REQUESTS).write_text("{}")
    note_accounts(run)
    assert accounts_in(run.directory) == []


# us of a write, and of p99, of the base; a session is up to a half slower than another.
STAGES = {"memtable": 20.0, "log": 80.0}
P99_US = 900.0
RULE, COSTS = VerdictRule(0.02, (4, 6)), Costs(20.0, 24.0)


def compared(place: Path, log: float = 1.0, p99: float = 1.0) -> ComparisonRun:
    """log, p99: how much longer they are in B; the twin was not observed"""
    going = ComparisonRun.open(made_comparison(place))
    dice = random.Random(3)
    for session in going.record.sessions:
        host = 1 + dice.random() / 2
        for process in session.processes:
            if process.arm == "A2":
                continue
            more = (log, p99) if process.arm == "B" else (1.0, 1.0)
            run = open_run(place / process.directory)
            run.record.metrics["p99"] = P99_US * host * more[1] * dice.gauss(1, 0.01)
            run.save()
            writes = 1000.0 * dice.randint(20, 40)
            times = {**STAGES, "log": STAGES["log"] * more[0]}
            rows = {name: us * host * dice.gauss(1, 0.01) * writes for name, us in times.items()}
            write_json(run.path(Files.ACCOUNTS), Accounts([Account("writepath", writes, rows)]))
    return going


def test_what_changed_is_told_row_by_row_and_as_a_verdict_on_p99(tmp_path: Path) -> None:
    going = compared(tmp_path, log=1.25, p99=1.5)
    (change,) = accounts_of(going, "B")
    rows = {row.name: row for row in change.rows}
    assert change.sessions == 6 and {name for name, row in rows.items() if row.seen} == {"all", "log"}
    assert rows["log"].change == pytest.approx(0.25 * rows["log"].base, rel=0.1)
    p99 = observed_decisions(going, "B", RULE, COSTS)["p99"]
    assert p99.outcome is Outcome.REGRESSED and p99.difference is not None
    assert p99.difference.low < 1.5 < p99.difference.high and p99.difference.sessions == 6
    assert p99.base_value is not None and p99.arm_value == pytest.approx(p99.base_value * p99.difference.ratio)
    told = verdicts_of(going).arms[0]
    assert told.accounts == [change] and told.decisions["p99"].outcome is Outcome.REGRESSED


def test_without_a_difference_there_is_none_and_of_the_twin_nothing(tmp_path: Path) -> None:
    going = compared(tmp_path)
    (change,) = accounts_of(going, "B")
    assert not [row for row in change.rows if row.seen]
    # Sessions differ by half, the arms of one by 1 %.
    assert observed_decisions(going, "B", VerdictRule(0.05, (4, 6)), COSTS)["p99"].outcome is Outcome.SAME
    assert accounts_of(going, "A2") == [] and observed_decisions(going, "A2", RULE, COSTS) == {}


def test_what_bars_a_verdict_bars_that_on_p99(tmp_path: Path) -> None:
    going = compared(tmp_path, p99=1.5)
    going.record.not_comparable.append("another kernel")
    assert observed_decisions(going, "B", RULE, COSTS)["p99"].outcome is Outcome.NOT_COMPARABLE
