"""Arms that are whole command lines: what is refused before anything starts, and what differs between them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.results.comparison import COMMAND_LINE, Arm, Comparison, Factor, Plan
from ground.results.run import Run
from ioflame.cli import main
from ioflame.measure.compare.alike import tell_apart
from ioflame.measure.compare.command_job import GivenDatabase, closed_to_others
from ioflame.measure.compare.own_commands import workload_of
from tests.viz.runs import record
from workloads.build import EngineBuild
from workloads.clones import clones
from workloads.engines.rocksdb.command_line import BenchCommand, bench_command
from workloads.registry import engine_named

FLAGS = "--benchmarks=readrandom --use_existing_db --db=/no/such --duration=60"
A = f"--arm=A=./db_bench {FLAGS} --cache_size=1000"


def bench(words: str) -> BenchCommand:
    command = bench_command(["db_bench", *words.split()], Path("/here"))
    assert command is not None
    return command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([A, "--threads=2"], "--threads: arm A is a whole command line, which says it itself"),
        ([A, "--config=byrx"], "--config: arm A is a whole command line"),
        ([A, "--schedule=duet"], "--schedule duet: arm A is a whole command line"),
        (["--arm=A=taskset -c 0 ./db_bench --threads=1"], "arm A: taskset starts another program"),
        (["--arm=A=./my_bench --fast"], "./my_bench is no db_bench: it is not called so, and has no --benchmarks"),
        ([A.replace("readrandom", "readrandom,overwrite")], "a comparison is of one benchmark"),
        ([A.replace("readrandom", "readtocache")], "readtocache ends by itself"),
        ([A.replace("readrandom", "readmissing")], "--benchmarks=readmissing is not known here"),
        ([A.replace("--use_existing_db", "")], "it has no --use_existing_db"),
        ([A], "at least two arms"),
    ],
)
def test_what_is_no_arm_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["compare", "-q", f"--out={tmp_path / 'out'}", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, says in err, "fix: " in err or "two arms" in says) == ("", True, True), err
    assert not (tmp_path / "out").exists()


def test_a_benchmark_is_known_by_the_workload_that_runs_it() -> None:
    engine = engine_named("rocksdb")
    assert workload_of(engine, bench(FLAGS), "A") == "readrandom"
    assert workload_of(engine, bench(FLAGS.replace("readrandom", "overwrite")), "A") == "overwrite"
    name = workload_of(engine, bench(FLAGS.replace("readrandom", "seekrandom")), "A")
    assert engine.step(name).benchmarks.startswith("seekrandom,")


def test_all_that_differs_between_command_lines_is_the_factor(tmp_path: Path) -> None:
    plan = Plan("frozen", "shared", 1, 0.02, [4], 4, 4, 2.0, 1.0, 2.0)
    arms = [Arm("A", "x", 1), Arm("B", "y", 2)]
    made = Comparison("0", "now", "rocksdb", "readrandom", Factor(COMMAND_LINE, ["x", "y"]), plan, arms)
    made.differing = {"--threads": ["1", "2"]}
    runs = [Run.create(tmp_path / name, record()) for name in ("a", "b")]
    runs[1].record.threads = 2
    runs[1].record.options = {**runs[1].record.options, "threads": "2", "command": "y"}
    runs[1].record.tools = {**runs[1].record.tools, "engine_sha256": "other"}
    runs[1].record.host = {**runs[1].record.host, "microcode": "0x2"}
    tell_apart(made, {"A": runs[0].record, "B": runs[1].record})
    assert made.not_comparable == []
    assert made.differing["--threads"] == ["1", "2"] and "threads" not in made.differing
    assert "tool engine_sha256" in made.differing
    assert not [name for name in made.differing if name.startswith("option ")]
    assert set(made.besides) == {"host microcode"}


def database(place: Path) -> Path:
    place.mkdir()
    for name in ("CURRENT", "LOCK", "000007.sst", "MANIFEST-000004", "notes"):
        (place / name).write_text(name if name != "LOCK" else "")
    return place


def test_a_database_of_the_users_is_copied_and_left_as_it_is(tmp_path: Path) -> None:
    tree = database(tmp_path / "db")
    before = {path.name: path.read_bytes() for path in tree.iterdir()}
    engine = engine_named("rocksdb")
    with closed_to_others(tree), clones(engine, tree, ["A", "B"], link=True, foreign=True) as copies:
        assert [copy.parent for copy in copies] == [tree.with_name("db.arms")] * 2
        for copy in copies:
            assert (copy / "000007.sst").stat().st_ino == (tree / "000007.sst").stat().st_ino
            assert (copy / "CURRENT").stat().st_ino != (tree / "CURRENT").stat().st_ino
            assert not (copy / "notes").exists()
        with pytest.raises(UsageError, match="is open in another process"), closed_to_others(tree):
            pass
    assert not tree.with_name("db.arms").exists()
    assert {path.name: path.read_bytes() for path in tree.iterdir()} == before
    with closed_to_others(tree):
        pass


def test_a_database_that_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    tree = database(tmp_path / "db")
    # As RocksDB locks it.
    holds = (
        f"import fcntl, sys\nfile = open({str(tree / 'LOCK')!r}, 'r+')\nfcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print(flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        with pytest.raises(UsageError, match="is open in another process"), closed_to_others(tree):
            pass
        process.stdin.close()
    with pytest.raises(UsageError, match="No such file"), closed_to_others(tmp_path):
        pass


def test_while_it_is_copied_no_engine_opens_it(tmp_path: Path) -> None:
    tree = database(tmp_path / "db")
    tries = f"import fcntl\nfcntl.lockf(open({str(tree / 'LOCK')!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with closed_to_others(tree):
        (tree / "LOCK").read_bytes()  # opened and closed once more, which drops a lock of the process
        assert subprocess.run([sys.executable, "-c", tries], capture_output=True, check=False).returncode != 0
    assert subprocess.run([sys.executable, "-c", tries], capture_output=True, check=False).returncode == 0


def test_seeds_of_a_given_database_are_kept_in_memory(tmp_path: Path) -> None:
    program = Path("/b/db_bench")
    build = EngineBuild(program, "7.8.3", False, "symbol table", None, program, (), None, {})
    given = GivenDatabase(engine_named("rocksdb"), build, tmp_path, bench(f"{FLAGS} --threads=2"))
    first, second = given.take_seeds("readrandom", 2), given.take_seeds("readrandom", 2)
    assert second.first == first.first + 2 and list(tmp_path.iterdir()) == []
    words = given.command("levelstats", first)
    assert words[0] == "/b/db_bench" and f"--db={tmp_path}" in words
