"""What is read of a command line of db_bench, by the forms that gflags knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.engines.rocksdb.command_line import BenchCommand, bench_command, differing_flags, given_flags

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
        (["--use_direct_reads", "0", "--num=3"], {"use_direct_reads": "true", "num": "3"}),
        (["--nohistogram", "--histogram=1"], {"histogram": "1"}),
        (["-benchmarks=a,b", "stray", "--", "-x"], {"benchmarks": "a,b", "x": "true"}),
        (["--num=1", "--num=2"], {"num": "2"}),
    ],
)
def test_a_flag_is_read_in_each_of_its_forms_and_the_last_counts(words: list[str], flags: dict[str, str]) -> None:
    assert given_flags(words, HERE) == flags


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


# ---- as an arm of a comparison ---------------------------------------------------------------------------------------
ARM = "--benchmarks=readrandom --use_existing_db --db=/mnt/db --duration=60"


def arm(words: str) -> BenchCommand:
    command = bench_command(["db_bench", *words.split()], Path("/here"))
    assert command is not None
    return command


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (ARM, None),
        (f"{ARM} --benchmarks=overwrite", None),
        (f"{ARM} --benchmarks=readrandom,overwrite", "a comparison is of one benchmark"),
        (f"{ARM} --benchmarks=stats", "a comparison is of one benchmark"),
        (f"{ARM} --benchmarks=fillseq", "a comparison is of one benchmark"),
        (f"{ARM} --nouse_existing_db", "it has no --use_existing_db"),
        (f"{ARM} --benchmarks=readseq", "readseq ends by itself after a number of operations"),
        (f"{ARM} --duration=0", "it has no --duration"),
        (f"{ARM} --wal_dir=/mnt/wal", "--wal_dir=/mnt/wal is another directory than --db"),
        (f"{ARM} --wal_dir=/mnt/db", None),
        ("--benchmarks=readrandom --use_existing_db --duration=60", "it has no --db"),
    ],
)
def test_what_cannot_take_turns_is_no_arm(words: str, says: str | None) -> None:
    refused = arm(words).refused
    assert (refused is None) == (says is None)
    assert refused is None or (says is not None and says in refused.why and refused.means)


def test_flags_differ_by_what_they_mean() -> None:
    base = arm(f"{ARM} --cache_size=1000 --histogram --threads 2 --verify_checksum=1")
    same = arm(f"--threads=2 --cache_size 1000 --histogram=true --verify_checksum {ARM} --duration=30 --report_file=x")
    assert differing_flags([base, same]) == {}
    other = arm(f"{ARM} --cache_size=2000 --nohistogram --threads=2 --verify_checksum=true --seed=7")
    assert differing_flags([base, same, other]) == {
        "--cache_size": ["1000", "1000", "2000"],
        "--histogram": ["true", "true", "false"],
        "--seed": ["-", "-", "7"],
    }


def test_a_process_of_an_arm_has_its_flags_on_a_copy_for_as_long_as_a_session() -> None:
    bench = arm(f"{ARM} --threads 2 --wal_dir=/mnt/db --key_size=8")
    words = bench.measured(Path("/copy"), Path("/run/report"), 900, 12)
    assert {"--db=/copy", "--wal_dir=/copy", "--duration=900", "--report_file=/run/report", "--seed=12"} <= set(words)
    assert {"--threads=2", "--use_existing_db=true", "--report_interval_seconds=1"} <= set(words)
    assert len({word.partition("=")[0] for word in words}) == len(words), "no flag twice"
    assert "--stats_interval_seconds=1" in arm(f"{ARM} --benchmarks=readwhilewriting").measured(Path(), Path(), 1, 1)
    assert "--seed=3" in arm(f"{ARM} --seed=3").measured(Path(), Path(), 1, 12), "a seed that was given stays"
    levels = bench.levels(Path("/copy"))
    assert "--benchmarks=memstats,levelstats" in levels and not [word for word in levels if "duration" in word]
    assert (bench.keys, bench.cache_size, bench.sizes) == (1_000_000, 32 << 20, (8, 100, 4096))
