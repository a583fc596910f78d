"""What is read of a command line of db_bench, by the forms that gflags knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.engines.rocksdb.command_line import BenchCommand, bench_command, given_flags

HERE = Path("/somewhere")


def bench(*words: str) -> BenchCommand:
    found = bench_command(["./db_bench", *words], HERE)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--num=5", "-threads", "8"], {"num": "5", "threads": "8"}),
        (["--use_direct_reads", "--db", "/d"], {"use_direct_reads": "true", "db": "/d"}),
        (["--nohistogram", "--histogram=1"], {"histogram": "1"}),
        (["-benchmarks=a,b", "stray", "--", "-x"], {"benchmarks": "a,b", "x": "true"}),
        (["--num=1", "--num=2"], {"num": "2"}),
    ],
)
def test_a_flag_is_read_in_each_of_its_forms_and_the_last_counts(words: list[str], flags: dict[str, str]) -> None:
    found = given_flags(words, HERE)
    assert {name: found.get(name) for name in flags if name != "histogram"} == {
        name: value for name, value in flags.items() if name != "histogram"
    }
    assert found.get("histogram") == flags.get("histogram")


def test_flags_of_a_file_count_where_it_is_named_and_a_file_that_names_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("# mine\n--report_interval_seconds=1\n--num=7\n--flagfile=mine\n")
    found = given_flags(["--flagfile=mine", "--num=8"], tmp_path)
    assert (found["report_interval_seconds"], found["num"]) == ("1", "8")
    assert given_flags(["--flagfile=none"], tmp_path) == {}


def test_benchmarks_are_those_that_write_a_report_as_often_as_they_run() -> None:
    named = "--benchmarks=fillseq,stats,readrandom[X2-W1],levelstats,overwrite,waitforcompaction,compact"
    assert bench(named).benchmarks == ["fillseq", "readrandom", "readrandom", "readrandom", "overwrite", "compact"]
    # db_bench skips what would make a database of its own.
    assert bench(named, "--use_existing_db=1").benchmarks[0] == "readrandom"
    assert bench("--num=3").benchmarks == []


def test_how_long_a_benchmark_runs_is_its_duration_or_its_operations() -> None:
    timed = bench("--duration=30", "--num=1000", "--threads=4", "--reads=10")
    assert timed.seconds("readrandom") == timed.seconds("overwrite") == 30
    # Its keys come in order: it ends with the last of them.
    assert timed.seconds("fillseq") is None
    assert timed.operations("fillseq") == 4000 and timed.operations("readrandom") == 40
    assert timed.operations("fill100K") == 4 and timed.operations("filluniquerandom") == 1000
    assert bench().operations("readrandom") == 1_000_000


def test_who_sends_queries_and_what_they_are() -> None:
    command = bench("--threads=8")
    assert command.clients("readwhilewriting") == 8 and command.has_writer("readwhilewriting")
    assert not command.has_writer("readrandom") and command.has_company("readwhilescanning")
    kinds = {name: command.kind(name) for name in ("readrandom", "readwhilewriting", "overwrite", "seekrandom")}
    assert kinds == {"readrandom": "get", "readwhilewriting": "get", "overwrite": "write", "seekrandom": "iterate"}
    assert command.kind("multireadrandom") == "multiget" and command.kind("readrandomwriterandom") == ""
    assert command.writes_its_log and not bench("--disable_wal=1").writes_its_log


def test_only_what_is_missing_is_added() -> None:
    report = Path("/runs/report.csv")
    assert bench().missing(report) == [f"--report_file={report}", "--report_interval_seconds=1", "--histogram"]
    own = bench("--report_file=mine.csv", "--histogram=0")
    assert own.report is None and own.missing(report) == ["--report_interval_seconds=1"]
    whole = bench("--report_file=mine.csv", "--report_interval_seconds=5", "--histogram")
    assert whole.missing(report) == []
    assert (whole.report, whole.interval) == (HERE / "mine.csv", 5)


def test_what_is_called_otherwise_is_a_db_bench_by_its_flags() -> None:
    assert bench_command(["/opt/bench", "--benchmarks=readrandom"], HERE) is not None
    assert bench_command(["/opt/bench", "--num=3"], HERE) is None and bench_command([], HERE) is None
