"""What instruments tell of a window by units of work: every account adds up to what its result says of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.accounts import ACCOUNTS, accounts_in
from ground.results.files import Files
from ground.results.run import Run, open_run
from ground.system.atomic_files import write_json
from ioflame.analysis.jobs import job_costs
from ioflame.stages.accounts import note_accounts
from tests import background_jobs
from tests.records import run_record, window
from tests.tails import tail
from tests.viz import observers

QUERIES = 2_000


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path, run_record(windows=[window("whose", 5, queries=QUERIES)]))
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
    writes, whose = observers.write_ladder(), observers.whose()
    assert found["ladder"].by_work()["all"] == pytest.approx(of_several.total.mean_ns / 1e3)
    assert found["several"].by_work()["all"] == pytest.approx(300)
    assert found["writepath"].by_work()["all"] == pytest.approx(writes.total_ns / writes.finished / 1e3)
    # Followers wait for the sync of their leaders: it is a row of the queue, beside that of the leaders themselves.
    rows = found["writepath"].by_work()
    assert rows["queue: log sync: file system"] == pytest.approx((100 * 30 + 200 * 300) / 300)
    assert rows["log sync: file system"] == pytest.approx(100 * 290 / 300)
    assert found["groups"].by_work()["groups"] == pytest.approx(1 / 3)
    assert found["slow"].by_work()["all"] == pytest.approx(tail().tail.mean_us)
    own = [row for row in whose.rows if row.owner != "others"]
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
    run = Run.create(tmp_path, run_record(windows=[window("whose", 5)]))
    write_json(run.path(Files.WHOSE), observers.whose())
    run.path(Files.REQUESTS).write_text("{}")
    note_accounts(run)
    assert accounts_in(run.directory) == []
