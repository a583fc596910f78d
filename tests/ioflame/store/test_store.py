"""The store: what is added can be had again to the unit."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from folding.foreign import read_pprof
from ground.errors import HostError, UsageError
from ground.results.cells import FORMER, CellOutcome, CellsRecord, CellsRun
from ground.results.profile import read_profile
from ground.results.record import Target
from ground.results.run import Run, open_run
from ground.results.store.database import RunTables, Store
from ground.system.atomic_files import write_json
from ioflame.present.report import write_page_of
from ioflame.store.add import add_to_store
from ioflame.store.export import export_run
from ioflame.store.history import read_history
from tests.ioflame.asked import refused
from tests.ioflame.store.stored import made_comparison, made_run, weights, words
from tests.places import ROOT

FIGURES = (
    "FROM relative_qps", "FROM us_per_query", "FROM noise", "FROM latest",
    "FROM frames_by_difference('7.8.3', '9.0.1')", "FROM stacks_through('9.0.1', 'eng::Cache::Lookup')",
)  # fmt: skip


def test_totals_are_those_of_run_json_to_the_unit(runs: list[Run], store: Store) -> None:
    profiles = [run.record.profile for run in runs]
    assert sorted(weights(store).values()) == sorted((p.weight, p.samples) for p in profiles if p)
    per_view = store.query('SELECT "view", sum(weight)::BIGINT FROM categories GROUP BY run, "view"').rows
    whole = Counter(p.weight for p in profiles if p)
    for view in ("owner", "leaf"):
        assert Counter(weight for name, weight in per_view if name == view) == whole
    queries = store.query("SELECT sum(queries) FROM windows").rows[0][0]
    assert queries == sum(window.counters.queries or 0 for run in runs for window in run.record.windows)
    seconds = store.query("SELECT sum(cpu_ns)::BIGINT, count(*) FROM seconds").rows
    assert seconds == [(sum(one.counters.cpu_ns for run in runs for one in run.series()), 22 * len(runs))]
    assert store.check() == []
    # A run that is added again changes nothing.
    before = sorted(store.directory.rglob("*"))
    assert add_to_store(store, runs[0].directory).new == [] and sorted(store.directory.rglob("*")) == before


@pytest.mark.long
def test_every_table_can_be_made_without_the_run_directory(runs: list[Run], tmp_path: Path) -> None:
    copies = [tmp_path / run.directory.name for run in runs]
    store = Store(tmp_path / "store", create=True)
    for run, copy in zip(runs, copies, strict=True):
        shutil.copytree(run.directory, copy)
        write_page_of([copy], copy / "report.html")
        (name,) = add_to_store(store, copy).new
        page = (copy / "report.html").read_bytes()
        shutil.rmtree(copy)
        export_run(store, name, copy)
        assert open_run(copy).record == run.record
        write_page_of([copy], copy / "report.html")
        assert (copy / "report.html").read_bytes() == page
    for view in FIGURES:
        assert store.query(view).rows, view


def test_the_views_are_hand_arithmetic(runs: list[Run], store: Store) -> None:
    ratios = {label: ratio for _, _, label, _, ratio, _ in store.query("FROM relative_qps").rows}
    assert ratios == {"7.8.3": 1.0, "9.0.1": pytest.approx(1.0)}
    found = {row["function"]: row for row in store.query("FROM frames_by_difference('7.8.3', '9.0.1')").as_dicts()}
    assert next(iter(found)) == "eng::Cache::Lookup"
    by_hand = {}
    for version in ("7.8.3", "9.0.1"):
        shares = []
        for run in (run for run in runs if run.record.tools["engine"] == version):
            folded = read_profile(run.path("profile.json"))
            own = sum(s.weight for s in folded.each_stack() if s.frames[-1] == "eng::Cache::Lookup")
            shares.append(own / folded.statistics.weight)
        by_hand[version] = 20.0 * sum(shares) / len(shares)
    row = found["eng::Cache::Lookup"]
    assert (row["own_base"], row["own_arm"]) == pytest.approx((by_hand["7.8.3"], by_hand["9.0.1"]))
    # All time is below main.
    assert (found["main"]["total_base"], found["main"]["own_base"]) == (pytest.approx(20.0), 0)
    through = store.query("FROM stacks_through('9.0.1', 'eng::Cache::Lookup')").as_dicts()
    assert [row["stack"] for row in through] == ["main;eng::Db::Get;eng::Cache::Lookup"]
    assert through[0]["us"] == pytest.approx(by_hand["9.0.1"])
    us = store.query("SELECT label, sum(us) FROM us_per_query WHERE \"view\" = 'owner' GROUP BY label").rows
    assert sorted(us) == [("7.8.3", pytest.approx(20.0)), ("9.0.1", pytest.approx(20.0))]


@pytest.mark.long
def test_the_sql_of_the_docs_adds_nothing_up_over_tests(tmp_path: Path) -> None:
    """Two tests of one version: each has a row of its own, whose us is that of the view."""
    store = Store(tmp_path / "store", create=True)
    for pid, workload in ((1, "readrandom"), (2, "fwdrange")):
        add_to_store(store, made_run(tmp_path, pid, workload=workload).directory)
    text = (ROOT / "docs" / "store.md").read_text()
    first, *others = text.partition("```sql\n")[2].partition("```")[0].strip().split(";\n")
    told = "FROM us_per_query WHERE \"view\" = 'owner' AND us > 0 ORDER BY category, test"
    category, *_ = store.query(f"SELECT category {told}").rows[0]
    per_test = {row["test"]: row["us"] for row in store.query(told).as_dicts() if row["category"] == category}
    answer = store.query(first.replace("'LRU'", f"'{category}'")).as_dicts()
    assert [(row.get("test"), row["us"]) for row in answer] == list(per_test.items())
    assert len(per_test) == 2 and others and all(store.query(one.partition(";")[0]).rows for one in others)


@pytest.mark.long
def test_merged_and_removed_runs_keep_the_sums_of_the_others(runs: list[Run], store: Store) -> None:
    before = weights(store)
    answers = [store.query(view).rows for view in FIGURES]
    assert store.compact() > 10
    assert weights(store) == before
    # Means and deviations are sums of floats, in an order that follows the files; so are ranks among equals.
    for view, rows in zip(FIGURES, answers, strict=True):
        for row, then in zip(sorted(store.query(view).rows, key=words), sorted(rows, key=words), strict=True):
            assert row == tuple(pytest.approx(value) if isinstance(value, float) else value for value in then), view
    gone, *kept = before
    store.remove([gone])
    assert weights(store) == {run: before[run] for run in kept}
    assert store.check() == []
    # Another reader sees the same, and it can be added once more.
    for run in runs:
        add_to_store(Store(store.directory), run.directory)
    again = Store(store.directory)
    assert weights(again) == before and again.check() == []
    with pytest.raises(UsageError, match="holds no run nobody"):
        store.remove(["nobody"])


@pytest.mark.long
def test_a_merge_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    """Of more bytes, which cannot be made smaller."""
    store, sums = Store(tmp_path / "store", create=True), {}
    for number in range(20):
        tables, dice = RunTables(f"run{number}", "2026-11-20"), random.Random(number)
        tables.add("runs", label="1.0")
        for file in range(15):
            data = dice.randbytes(1 << 20)
            tables.add("files", name=f"{file}.json", data=data)
            sums[tables.run, f"{file}.json"] = hashlib.sha256(data).hexdigest()
        store.add(tables)
    assert Store(store.directory, memory=300 << 20).compact() == 38
    assert {(run, name): of for run, name, of in store.query("SELECT run, name, sha256(data) FROM files").rows} == sums


@pytest.mark.long
def test_a_comparison_is_its_processes_with_their_blocks_and_its_verdicts(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    (tmp_path / "comparison").mkdir()
    # Three arms in six sessions, and the comparison itself.
    assert len(add_to_store(store, made_comparison(tmp_path / "comparison")).new) == 19
    ratios = {row[2]: row[4] for row in store.query("FROM relative_qps").rows}
    assert ratios == {"A": 1.0, "B": pytest.approx(1 / 1.05, rel=0.005)}
    blocks = "SELECT count(DISTINCT (session, block)), sum(dropped <> '') FROM windows JOIN runs USING (run)"
    assert store.query(blocks).rows == [(24, 6)]
    (noise,) = store.query("FROM noise").as_dicts()
    assert (noise["host"], noise["blocks"]) == ("h1", 23) and abs(noise["twin_mean"]) < 1
    verdicts = store.query("SELECT arm, verdict, round(ratio, 2) FROM results WHERE metric = 'qps' AND NOT twin").rows
    assert verdicts == [("B", "regressed", 0.95)]
    assert store.query("SELECT count(*) FROM results WHERE twin").rows[0][0] > 0
    # Sessions are the repeats, and rounds that both versions share.
    assert not read_history(store).series
    history = read_history(store, ["A", "B"])
    (series,) = (one for one in history.series if one.metric == "qps")
    assert series.labels == ["A", "B"] and series.fit.repeated and [one.runs for one in series.fit.versions] == [6, 6]
    assert [(one.at, one.candidate) for one in series.fit.features] == [(1, False)]
    assert store.check() == []


def test_our_own_stacks_leave_with_their_totals(store: Store, tmp_path: Path) -> None:
    name, (weight, samples) = min(weights(store).items())
    export_run(store, name, tmp_path / "x.pb.gz")
    profile = read_pprof((tmp_path / "x.pb.gz").read_bytes())
    assert profile.types == [("samples", "count"), ("cpu-clock", "ns")]
    assert [sum(values) for values in zip(*(one.values for one in profile.samples), strict=True)] == [samples, weight]
    export_run(store, name, tmp_path / "x.folded")
    (again,) = add_to_store(store, tmp_path / "x.folded", {"version": "again"}).new
    assert weights(store)[again][0] == weight


def test_processes_of_one_service_are_one_test(tmp_path: Path) -> None:
    """Whatever their numbers are, and how many threads each had when it was attached to."""
    store = Store(tmp_path / "store", create=True)
    for pid in (100, 101):
        target = Target(f"--pid {pid}", "/usr/sbin/mysqld", [pid])
        run = made_run(tmp_path, pid, workload=f"mysqld-{pid}", threads=pid, target=target)
        add_to_store(store, run.directory)
    assert store.query("SELECT DISTINCT test, workload FROM runs").rows == [("mysqld", "mysqld")]


RELEASE = {
    "engine": "10.5.1", "engine_artifact": "a1", "engine_build_id": "client", "engine_library_build_id": "b1",
    "engine_library": "/c/rocksdb/10.5.1/librocksdb.so", "engine_compiler": "gcc 11.2.1",
    "engine_release": "org.rocksdb:rocksdbjni:10.5.1:jar:linux64",
}  # fmt: skip


@pytest.mark.long
def test_a_release_is_told_from_other_builds_of_its_version(tmp_path: Path) -> None:
    """By what it is from and its artifact; and it is no test with a client of its own."""
    store = Store(tmp_path / "store", create=True)
    own = {**RELEASE, "engine_artifact": "a2", "engine_library": "/b/librocksdb.so"}
    del own["engine_release"]
    builds = ((RELEASE, "10.5.1"), (RELEASE, "10.5.1"), (own, "/b/librocksdb.so"), ({"engine": "10.5.1"}, ""))
    for pid, (tools, library) in enumerate(builds, 1):
        options = {"configuration": "byrx", **({"library": library} if library else {})}
        add_to_store(store, made_run(tmp_path, pid, tools=tools, options=options).directory)
    rows = store.query("SELECT test, label, artifact, origin, library, build_id, runs FROM builds").rows
    assert sorted(rows) == [
        ("readrandom byrx t1", "10.5.1", "version 10.5.1", "", "", "", 1),
        ("readrandom byrx t1 library", "10.5.1", "a1", RELEASE["engine_release"], RELEASE["engine_library"], "b1", 2),
        ("readrandom byrx t1 library", "10.5.1", "a2", "", "/b/librocksdb.so", "b1", 1),
    ]


@pytest.mark.long
def test_builds_of_an_experiment_are_versions_or_have_its_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    going = tmp_path / "going"
    versions = {"9.10.0": "9.10.0", "gcc": "10.5.1", "clang": "10.5.1"}
    outcomes = []
    for pid, (name, version) in enumerate(versions.items(), 1):
        run = made_run(tmp_path, pid, version)
        shutil.copytree(run.directory, going / f"byrx, {name}-1-readrandom")
        of = {"readrandom": f"byrx, {name}-1-readrandom"}
        outcomes.append(CellOutcome(f"byrx, {name}", 1, status="done", runs=of))
    builds = {name: {"version": version} for name, version in versions.items()}
    made = CellsRecord("versions", "2026-11-20T00:00:00+0000", 1, {}, {}, {}, outcomes, builds)
    write_json(going / CellsRun.file, made)
    assert len(add_to_store(store, going).new) == 3
    labels = store.query("SELECT label, artifacts.version FROM runs JOIN artifacts USING (run) ORDER BY ALL").rows
    assert labels == [("9.10.0", "9.10.0"), ("clang", "10.5.1"), ("gcc", "10.5.1")]


def test_a_store_is_as_private_as_the_runs_in_it(runs: list[Run], tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        # One of our own, and one in a directory that was there, whose rights are its owner's.
        (tmp_path / "there").mkdir()
        for name in ("own", "there"):
            add_to_store(Store(tmp_path / name, create=True), runs[0].directory)
    finally:
        os.umask(before)
    assert runs[0].directory.stat().st_mode & 0o777 == 0o700
    rights = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert rights["own"] == rights["own/v1"] == rights["there/v1"] == 0o700 and rights["there"] == 0o755


def test_what_holds_nothing_to_store_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    former, cells, table = tmp_path / "former", tmp_path / "cells", tmp_path / "empty.tsv"
    former.mkdir()
    (former / FORMER).write_text("{}")
    cells.mkdir()
    write_json(cells / CellsRun.file, CellsRecord("none", "2026-11-20T00:00:00+0000", 1, {}, {}, {}))
    table.write_text("workload\tbuild\ttest\t6.29.5\nbyrx\tgcc\tfillseq\t\n")
    for found in (former, cells, table):
        assert f"nothing of {found} was added" in refused(capsys, "store", "add", tmp_path / "s", found, code=1)


def test_without_duckdb_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    told = refused(capsys, "store", "add", tmp_path / "s", tmp_path, code=HostError.exit_code)
    assert f"{sys.executable} -m pip install duckdb==2.0.0" in told
    assert "\nduckdb==2.0.0\n" in (ROOT / "requirements-dev.txt").read_text()


def test_what_makes_no_sense_is_refused(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "notes.json", {})
    for arguments, says in (
        (["ls", str(tmp_path)], "is no store"),
        (["add", str(store.directory), str(tmp_path)], "is no run, comparison, experiment, count or search"),
        (["add", str(store.directory), str(tmp_path / "notes.json")], "does not say what it is"),
        (["sql", str(store.directory), "SELECT nothing FROM nowhere"], "DuckDB does not take this query"),
        (["export", str(store.directory), "nobody", "-o", str(tmp_path / "x.folded")], "holds no run nobody"),
    ):
        assert says in refused(capsys, "store", *arguments)
