"""`ioflame runs`: every kind of run in a directory, the newest last, and what cannot be read with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ground.errors import EXIT_OK
from ground.results.bisect import BisectRecord, BisectRun
from ground.results.cells import CellOutcome, CellsRecord, CellsRun
from ground.results.checks import Check, Verdict
from ground.results.command_run import CommandRun
from ground.results.counted import CountedArm, CountRecord, CountRun, OfOperation
from ground.results.files import Files
from ground.results.record import Target
from ground.results.run import Run, new_directory
from ground.results.run_list import _STUDIES, list_runs, study_of
from ground.results.sweep import Offered, SweepRecord, SweepRun
from ground.system.atomic_files import write_json
from ioflame.cli import main
from tests.ioflame.commands.test_compare_command import comparison
from tests.viz.observers import pmp
from tests.viz.runs import record
from viz.terminal.runs import render_runs


def rows_of(capsys: pytest.CaptureFixture[str], directory: Path) -> list[dict[str, object]]:
    assert main(["runs", str(directory), "--json"]) == EXIT_OK
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def by_kind(rows: list[dict[str, object]]) -> dict[object, dict[str, object]]:
    return {row["kind"]: row for row in rows}


def test_every_kind_is_listed_with_what_its_own_record_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = Run.create(tmp_path, record(created="2026-11-20T10:00:00+0000"))
    profile.point_latest()
    target = Target("--pid 4711", "postgres", [4711])
    attached = record(created="2026-11-20T11:00:00+0000", target=target, metrics={"cpuPer": 31.5}, checks=[])
    Run.create(tmp_path, attached)
    going = comparison(tmp_path, 1.1)
    outcomes = [CellOutcome("a", 1, status="done"), CellOutcome("a", 2, status="done"), CellOutcome("b", 1)]
    CellsRun.create(tmp_path, CellsRecord("streams", "2026-11-20T12:00:00+0000", 1000, {}, {}, {}, outcomes))
    search = BisectRecord("0", "2026-11-20T13:00:00+0000", "cpuPer", ["1a2b", "3c4d", "5e6f"], ["", "", ""])
    BisectRun.create(tmp_path, search)
    counted = CountRecord("0", "2026-11-20T14:00:00+0000", "rocksdb", {}, [0], [CountedArm("9.10.0", "9.10.0", {})])
    counted.operations["get"] = OfOperation("a Get", "operation", "owner")
    CountRun(new_directory(tmp_path, "count-rocksdb"), counted).save()
    closed = Offered(None, 12_345.0, 1000, 1.0)
    swept = SweepRecord(
        "0", "2026-11-20T15:00:00+0000", "lmdb", "0.9.24", "readrandom", 2, "poisson", "p99", None, closed
    )
    SweepRun(new_directory(tmp_path, "sweep-readrandom"), swept).save()
    rows = rows_of(capsys, tmp_path)
    assert len(rows) == 7, "`latest` is no run of its own"
    found = by_kind(rows)
    assert (found["profile"]["qps"], found["profile"]["us_per_query"]) == (10000.0, 20.0)
    assert found["profile"]["verdict"] == "warned: observer"
    assert (found["attach"]["qps"], found["attach"]["us_per_query"]) == (None, 31.5)
    assert str(found["attach"]["what"]).startswith("postgres") and found["attach"]["verdict"] == "ok"
    assert found["comparison"]["verdict"] == "no verdict yet: 4 of at most 16 sessions"
    assert found["experiment"]["verdict"] == "of 3 cell runs: 2 done, 1 todo"
    assert found["bisect"]["what"] == "cpuPer, 1a2b to 5e6f" and found["bisect"]["verdict"] == "not finished"
    assert (found["count"]["what"], found["count"]["verdict"]) == ("rocksdb: 9.10.0", "counted: get")
    assert (found["sweep"]["what"], found["sweep"]["verdict"]) == (
        "readrandom, lmdb 0.9.24, 2 threads",
        "0 rates; without one 12,345 queries a second",
    )
    order = [row["kind"] for row in rows if row["kind"] != "comparison"]
    assert order == ["profile", "attach", "experiment", "bisect", "count", "sweep"]
    # Once there is a verdict it is the sentence that the comparison itself ends with.
    assert main(["compare", str(going.directory)]) == EXIT_OK
    said = capsys.readouterr().out.splitlines()[-1]
    assert str(by_kind(rows_of(capsys, tmp_path))["comparison"]["verdict"]) in said


def test_releases_are_told_apart_in_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release, a library of the user's of the same version, and an experiment of several releases."""
    artifact = "org.rocksdb:rocksdbjni:10.5.1:jar:linux64"
    for asked, tools in (("10.5.1", {"engine_release": artifact}), ("/b/librocksdb.so", {}), ("", {})):
        options = {"scale": "smoke", **({"library": asked} if asked else {})}
        Run.create(tmp_path, record(tools={"engine": "10.5.1", **tools}, options=options))
    builds = {"9.10.0": {"version": "9.10.0"}, "10.5.1": {"version": "10.5.1"}}
    CellsRun.create(tmp_path, CellsRecord("versions", "2026-11-20T12:00:00+0000", 1, {}, {}, {}, builds=builds))
    rows = rows_of(capsys, tmp_path)
    assert {str(row["what"]) for row in rows} == {
        f"readrandom, rocksdb 10.5.1, library {artifact}, smoke",
        "readrandom, rocksdb 10.5.1, library /b/librocksdb.so, smoke",
        "readrandom, rocksdb 10.5.1, smoke",
        "versions: 9.10.0, 10.5.1",
    }


def test_a_run_that_is_not_whole_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = [Check(name, Verdict.FAILED, "") for name in ("a", "b", "c", "d", "e")]
    for one in (record(missing=["perf", "waits"]), record(metrics={}), record(checks=failed)):
        Run.create(tmp_path, one)
    said = {row["verdict"] for row in rows_of(capsys, tmp_path)}
    assert said == {"incomplete: perf; waits", "not analysed", "failed: a, b, c and 2 more"}


def test_what_cannot_be_read_is_named_and_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run.create(tmp_path, record())
    broken, later, ours, empty, others = (
        tmp_path / name for name in ("torn", "later", "odd", "20261120T101010-pmp-7", "notes")
    )
    for directory in (broken, later, ours, empty, others):
        directory.mkdir()
    (broken / Files.RECORD).write_text('{"schema": 1, "ioflame"')
    (later / Files.RECORD).write_text(
        (next(tmp_path.glob("*-t1")) / Files.RECORD).read_text().replace(": 1,", ": 99,", 1)
    )
    (ours / "comparison.json").write_text("[]")
    rows = {row["name"]: row for row in rows_of(capsys, tmp_path)}
    assert len(rows) == 5 and "notes" not in rows
    assert {name for name, row in rows.items() if row["kind"] == "unreadable"} == {"torn", "later", "odd", empty.name}
    assert f"{broken / Files.RECORD} is not a run record" in str(rows["torn"]["verdict"])
    assert "has schema 99" in str(rows["later"]["verdict"])
    assert "is not the record of a comparison" in str(rows["odd"]["verdict"])
    assert rows[empty.name]["verdict"] == "no record: the command ended before it wrote one"
    assert rows[empty.name]["created"] == "2026-11-20T10:10:10"


def test_the_table_folds_and_tsv_has_every_digit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.create(tmp_path, record(metrics={"qps": 12345.678, "cpuPer": 20.125}))
    run.directory.rename(tmp_path / "\x1b[2Jmine")
    for width in (80, 100):
        text = render_runs(list_runs(tmp_path), width)
        assert all(len(line) <= width for line in text.splitlines())
        assert "12,346" in text and "20.12" in text and "\x1b" not in text
        assert "2026-11-20 19:30" in text, "its name does not tell when"
    assert main(["runs", str(tmp_path), "--tsv"]) == EXIT_OK
    head, row = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    told = dict(zip(head, row, strict=True))
    assert (told["qps"], told["us_per_query"]) == ("12345.678", "20.125")


def test_a_directory_that_is_none_or_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == EXIT_OK
    assert capsys.readouterr().out == f"{tmp_path} holds no run\n"
    run = Run.create(tmp_path, record())
    for directory, says, mend in (
        (tmp_path / "none", "cannot be listed: No such file or directory", "ioflame runs DIR"),
        (run.directory, "is a run itself", f"ioflame show {run.directory}"),
    ):
        assert main(["runs", str(directory)]) == 2
        told = capsys.readouterr()
        assert told.out == "" and f"{directory} {says}" in told.err and mend in told.err


def test_stacks_of_a_process_are_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "20261120T101010-pmp-7"
    directory.mkdir()
    write_json(directory / Files.PMP, pmp())
    (row,) = rows_of(capsys, tmp_path)
    assert (row["kind"], row["created"]) == ("pmp", "2026-11-20T10:10:10")
    assert f"{pmp().samples:,} samples" == row["verdict"] and f"process {pmp().pid}" in str(row["what"])


def test_a_command_is_listed_with_the_figures_of_its_only_run_or_with_how_many_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["./db_bench", "--benchmarks=fillseq,readrandom"]
    home = CommandRun.begin(tmp_path, "db_bench", "0", argv)
    target = Target("./db_bench", "db_bench", [7])
    for name, us in (("fillseq", 5.5), ("readrandom", 31.5)):
        own = record(workload=name, target=target, options={"command": "./db_bench"}, metrics={"cpuPer": us}, checks=[])
        run = Run.create(home.directory, own)
        home.record.runs.append(run.directory.name)
        home.save()
        run.point_latest(tmp_path)
        (one,) = rows_of(capsys, tmp_path)
        told = "ok" if name == "fillseq" else f"2 runs: ioflame runs {home.directory}"
        assert (one["kind"], one["what"], one["verdict"]) == ("command", " ".join(argv), told)
        assert one["us_per_query"] == (us if name == "fillseq" else None)
        assert (tmp_path / "latest").resolve() == run.directory
    inner = rows_of(capsys, home.directory)
    assert sorted(str(row["what"]).split(",")[0] for row in inner) == ["fillseq", "readrandom"]
    assert {row["kind"] for row in inner} == {"command"}


def test_each_study_is_known_by_the_file_of_its_record() -> None:
    assert all(study_of(file).file == file for file in _STUDIES)
