"""Arms of a comparison: what may differ between them, command lines with their database, and links made anew."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.comparison import BUILD, COMMAND_LINE, Arm, Block, BlockWindow, Comparison, Factor, Plan
from ground.results.record import Command, RunRecord
from ground.system.host import host_facts
from ioflame.measure.compare.arms import PlannedArm
from ioflame.measure.compare.conduct import tell_apart
from ioflame.measure.compare.own_commands import GivenDatabase, closed_to_others, workload_of
from ioflame.measure.compare.relinked import Relinked, refuse_relinking
from ioflame.measure.compare.sessions import BOUNDS, bounds_of, passed_bounds
from ioflame.measure.job import Job
from tests.records import window
from tests.viz.runs import record
from workloads.build import EngineBuild
from workloads.clones import clones
from workloads.engines.rocksdb.command_line import BenchCommand, bench_command
from workloads.registry import engine_named


def comparison(factor: str) -> Comparison:
    plan = Plan("frozen", "shared", 1, 0.02, [4], 16, 2, 2.0, 1.0, 2.0)
    arms = [Arm("A", "a", 1), Arm("B", "b", 2)]
    return Comparison("0", "now", "rocksdb", "readrandom", Factor(factor, ["a", "b"]), plan, arms)


def run(artifact: str, *flags: str) -> RunRecord:
    ran = Command("db_bench readrandom", ["db_bench", "LD_PRELOAD=/x", *flags], 1, 0.0, 1.0, "exit code 0")
    return record(tools={"engine": "7", "engine_artifact": artifact}, commands=[ran])


@pytest.mark.parametrize(
    ("factor", "one", "other", "differing", "barred"),
    [
        (BUILD, run("a"), run("b"), ["tool engine_artifact"], False),
        (BUILD, run("a", "--cache_size=1"), run("b", "--cache_size=2"), ["setting", "artifact"], True),
        # The older client lacks it: a part of its build, and said.
        (BUILD, run("a", "--cache_type=lru"), run("b"), ["setting", "artifact"], False),
        ("cache_size", run("a", "--cache_size=1"), run("a", "--cache_size=2"), ["setting"], False),
        ("cache_size", run("a", "--cache_size=1"), run("b", "--cache_size=2"), ["setting", "artifact"], True),
        ("nothing", run("a"), run("a"), [], False),
    ],
)
def test_only_the_factor_may_differ(
    factor: str, one: RunRecord, other: RunRecord, differing: list[str], barred: bool
) -> None:
    made = comparison(factor)
    tell_apart(made, {"A": one, "B": other})
    assert len(made.differing) == len(differing)
    assert all(any(word in name for name in made.differing) for word in differing)
    assert bool(made.not_comparable) == barred
    tell_apart(made, {"A": one, "B": one})
    assert made.not_comparable == [] and made.differing == {}


def test_the_factor_is_not_besides_itself_and_a_library_is_its_build_id() -> None:
    def of(client: str, snappy: str, artifact: str, *flags: str) -> RunRecord:
        made = run(artifact, *flags)
        made.tools |= {"engine_binary": client, "library libsnappy.so": snappy}
        made.options["db_bench"] = client
        return made

    made = comparison(BUILD)
    made.arms[0].value, made.arms[1].value = "/a", "LD_LIBRARY_PATH=/b /b"
    made.arms[1].environment["LD_LIBRARY_PATH"] = "/b"
    tell_apart(made, {"A": of("/a", "libsnappy.so.1.1.9 ade1", "a"), "B": of("/b", "libsnappy.so.1 ade1", "b")})
    # What an arm is: its client by path and hash, and no library of the same bits.
    assert set(made.differing) == {"option db_bench", "tool engine_binary", "tool engine_artifact"}
    assert made.besides == {}
    tell_apart(made, {"A": of("/a", "libsnappy.so.1 ade1", "a", "LD_LIBRARY_PATH=/a", "TZ=a"),
                      "B": of("/b", "libsnappy.so.1 0b1d", "b", "LD_LIBRARY_PATH=/b", "TZ=b")})  # fmt: skip
    assert "tool library libsnappy.so" in made.differing
    assert set(made.besides) == {"environment TZ"}
    made = comparison("cache_size")
    tell_apart(made, {"A": of("/a", "x 1", "a", "--cache_size=1"), "B": of("/a", "x 2", "a", "--cache_size=2")})
    assert set(made.besides) == {"tool library libsnappy.so"} and len(made.differing) == 2


def test_a_block_is_disturbed_by_counters_that_see_no_query() -> None:
    mib = 1 << 20
    quiet = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib, process_read_bytes=99 * mib)
    stolen = window("plain", 2.0, queries=1, steal_ns=2_000_000_000)
    foreign = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib, process_read_bytes=70 * mib)
    writes = window("plain", 2.0, queries=1, process_write_bytes=20 * mib)

    def seen(*windows: object, bounds: dict[str, float] = BOUNDS) -> str:
        slots = [BlockWindow("A", place, one) for place, one in enumerate(windows)]  # type: ignore[arg-type]
        return passed_bounds(Block(["A"] * len(slots), slots), bounds)

    cached = window("plain", 2.0, queries=1, storage_read_bytes=100 * mib)
    assert seen(quiet, cached) == ""
    assert seen(quiet, foreign) == "others' reads 30 % in window 2 (A)"
    assert seen(stolen).startswith("steal ")
    # What a workload that writes does itself disturbs nobody.
    assert seen(writes, bounds=bounds_of(writes=True)) == ""
    assert seen(foreign, bounds=bounds_of(writes=True)).startswith("others' reads ")
    assert seen(writes, bounds=bounds_of(writes=False)) == "writes 10 MiB/s in window 1 (A)"


def test_a_machine_is_told_by_a_hash_of_its_number() -> None:
    facts = host_facts()
    number = Path("/etc/machine-id")
    if number.exists() and number.read_text().strip():
        assert number.read_text().strip() not in repr(facts)
        assert len(facts["host_id"]) == 16
    assert facts["boot_id"] in Path("/proc/sys/kernel/random/boot_id").read_text()
    assert set(facts) > {"microcode", "mitigations", "smt", "transparent_hugepages"}


FLAGS = "--benchmarks=readrandom --use_existing_db --db=/no/such --duration=60"


def bench(words: str) -> BenchCommand:
    command = bench_command(["db_bench", *words.split()], Path("/here"))
    assert command is not None
    return command


def test_a_benchmark_is_known_by_the_workload_that_runs_it() -> None:
    engine = engine_named("rocksdb")
    assert workload_of(engine, bench(FLAGS), "A") == "readrandom"
    assert workload_of(engine, bench(FLAGS.replace("readrandom", "overwrite")), "A") == "overwrite"
    name = workload_of(engine, bench(FLAGS.replace("readrandom", "seekrandom")), "A")
    assert engine.step(name).benchmarks.startswith("seekrandom,")


def test_all_that_differs_between_command_lines_is_the_factor() -> None:
    made = comparison(COMMAND_LINE)
    made.differing = {"--threads": ["1", "2"]}
    one = record()
    options, tools = {**one.options, "threads": "2", "command": "b"}, {**one.tools, "engine_sha256": "other"}
    other = record(threads=2, options=options, tools=tools, host={**one.host, "microcode": "0x2"})
    tell_apart(made, {"A": one, "B": other})
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
    words = given.command("levelstats")
    assert words[0] == "/b/db_bench" and f"--db={tmp_path}" in words


def arm(name: str, *, released: bool = False) -> PlannedArm:
    build = SimpleNamespace(library=Path(f"/builds/{name}/engine.so"), released={"origin": "1"} if released else {})
    return PlannedArm(name, name, cast(Job, SimpleNamespace(build=build)), {}, cast(RunRecord, None))


@dataclass
class _Job:
    """As much of a job as linking takes."""

    build: SimpleNamespace
    engine: SimpleNamespace


def test_a_session_links_an_arm_once_however_many_processes_it_has(tmp_path: Path) -> None:
    engine = SimpleNamespace(inspect=lambda binary: SimpleNamespace(path=binary, library=None))
    job = cast(Job, _Job(SimpleNamespace(path=Path("/builds/client"), library=None), engine))
    arms = [PlannedArm(name, name, job, {}, cast(RunRecord, None)) for name in ("a", "b")]
    linked_by = 'echo "$IOFLAME_ARM" >> "$(dirname "$(dirname "$IOFLAME_OUT")")/linked"; touch "$IOFLAME_OUT"'
    links = Relinked(linked_by, 7, 2, tmp_path)
    builds = [links.linked(one).job.build.path for one in (*arms, *arms)]
    assert builds == 2 * [tmp_path / "s02-a" / "client", tmp_path / "s02-b" / "client"]
    assert (tmp_path / "linked").read_text().split() == ["a", "b"]


def test_command_lines_and_releases_are_refused() -> None:
    refuse_relinking(BUILD, [arm("a"), arm("b")])
    with pytest.raises(UsageError, match="whole command lines"):
        refuse_relinking(COMMAND_LINE, [arm("a")])
    with pytest.raises(UsageError, match="b is a release, without its object files") as refused:
        refuse_relinking(BUILD, [arm("a"), arm("b", released=True)])
    assert "a part of the difference" in (refused.value.means or "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo no objects; exit 3", "exit code 3; its output: no objects"),
        ("true", "it made no engine.so; its output: none"),
    ],
)
def test_a_command_that_makes_no_link_is_told_with_what_was_run(tmp_path: Path, command: str, why: str) -> None:
    links = Relinked(command, 7, 2, tmp_path / "links")
    with pytest.raises(MeasurementError, match=f"--relink: {why}") as failed:
        links.linked(arm("a"))
    assert failed.value.means == "session 2 has no link of arm a; sessions before it are kept"
    out = tmp_path / "links" / "s02-a" / "engine.so"
    assert failed.value.mend.startswith("env IOFLAME_ARM=a IOFLAME_SEED=")
    assert f"IOFLAME_OUT={out} sh -c" in failed.value.mend
    links.remove()
    assert not (tmp_path / "links").exists()
