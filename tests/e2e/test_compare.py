"""`ioflame compare` on the real client: interrupted and gone on with, refused, and against clients of known faults."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
from pathlib import Path

import pytest

from ground.results.comparison import ComparisonRun
from ground.results.differences import Outcome
from ground.results.files import Files
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.test_faults import wait_for
from tests.programs import compiled

# Nanoseconds in each read call; the first is the base.
SPINS = {"plain": 0, "zero": 0, "half": 500, "two": 2000}

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


@pytest.fixture(scope="module")
def shim(place: Path) -> Path:
    source = Path(__file__).with_name("shim.c")
    return compiled(source, place / "shim.so", "-O2", "-shared", "-fPIC", "-ldl")


@pytest.fixture
def compare(short: list[str], tmp_path: Path) -> list[str]:
    """Arguments of a short comparison on the loaded database."""
    return ["compare", *short[1:-1], "--duration=1", f"--out={tmp_path}"]


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def only_comparison(out: Path) -> ComparisonRun:
    (directory,) = out.glob("*-compare-*")
    return ComparisonRun.open(directory)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arm=a=db_bench", "--arm=b=db_bench"], "are the same artifact"),
        (["--null=db_bench", "--schedule=duet"], "arm A reads the device"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    ioflame: Ioflame, compare: list[str], tmp_path: Path, arguments: list[str], says: str
) -> None:
    code, out, err = ioflame.run(*compare, *arguments)
    assert (code, out) == (2, ""), err
    assert says in err
    assert not list(tmp_path.iterdir())


def test_a_time_is_planned_for_or_refused(ioflame: Ioflame, compare: list[str], tmp_path: Path) -> None:
    command = [*compare, "--null=db_bench", "--plan"]
    code, out, err = ioflame.run(*command)
    assert code == 0 and ", 4 blocks a session, at most 16 sessions, looks after 4" in out, err
    # A start is taken to last 15 s, a block 8 s: four sessions of three blocks are 3 min 44 s, of four 4 min 16 s.
    code, out, err = ioflame.run(*command, "--time=4m")
    assert code == 0 and ", 2 blocks a session, at most 16 sessions in 4 min 00 s, looks after 4" in out, err
    assert "longer than --time" in out
    code, out, err = ioflame.run(*command, "--time=90s")
    assert (code, out) == (2, "") and "4 sessions of 1 block take about 3 min" in err
    code, out, err = ioflame.run(*command, "--time=4m", "--blocks=9")
    assert (code, out) == (2, "") and "or fewer --blocks than 9" in err
    assert not list(tmp_path.iterdir())


def test_interrupted_and_gone_on_with(ioflame: Ioflame, compare: list[str], loaded: Path, tmp_path: Path) -> None:
    other = script(tmp_path / "again", 'exec db_bench "$@"')
    command = [*compare, f"--out={tmp_path / 'out'}", "--arm=plain=db_bench", f"--arm=again={other}", "--no-twin"]
    command += ["--sessions=1", "--blocks=1", "--seed=7"]
    process = ioflame.start(*command)
    wait_for(process, "warm it up")
    wait_for(process, "warm it up")
    # Both arms read the very same blocks of the device, and one of them is stopped.
    arms = loaded.with_name(f"{loaded.name}.arms")
    inodes = [{f.name: f.stat().st_ino for f in arm.glob("*.sst")} for arm in (loaded, *arms.iterdir())]
    assert len(inodes) == 3 and inodes[0] and inodes[0] == inodes[1] == inodes[2]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert ioflame.left_behind() == []
    assert not arms.exists()
    going = only_comparison(tmp_path / "out")
    assert f"--resume {going.directory}" in err
    assert [session.ended for session in going.record.sessions] == ["interrupted"]

    code, out, err = ioflame.run(*command, f"--resume={going.directory}", "--json")
    assert code == 0, err
    found, record = json.loads(out), ComparisonRun.open(going.directory).record
    assert [(session.whole, session.ended) for session in record.sessions] == [(False, "interrupted"), (True, "")]
    assert record.plan.seed == 7 == found["seed"]
    (session,) = record.whole_sessions()
    (block,) = session.counted()
    assert sorted(block.order) == ["again", "again", "plain", "plain"] and block.order == block.order[::-1]
    edges = [edge for slot in block.windows for edge in (slot.window.start_ns, slot.window.end_ns)]
    assert edges == sorted(edges) and min(slot.window.seconds for slot in block.windows) >= 1
    for arm in ("again", "plain"):
        counted = [slot.window.counters for slot in block.windows if slot.arm == arm]
        # What a stopped process had finished is known as well as that of one that runs: one read call a query. Between
        # two reports of a second queries are spread evenly, and on a busy host they are not even.
        assert 0.8 < sum(c.queries or 0 for c in counted) / sum(c.read_calls for c in counted) < 1.3
    # One session says nothing of the next: no verdict, and every printed number is in the JSON.
    decisions = found["arms"][0]["decisions"]
    assert {decisions[name]["outcome"] for name in ("qps", "cpuPer")} <= {Outcome.UNDECIDED, Outcome.NOT_COMPARABLE}
    for process_of in session.processes:
        run = open_run(going.directory / process_of.directory)
        assert run.path(Files.PROFILE).exists() and run.record.missing == []
        assert "library libc.so" in run.record.tools
    # The same again, from its files: nothing is measured, and the verdict is the last line.
    code, out, err = ioflame.run("compare", going.directory)
    assert code == 0, err
    assert out.splitlines()[-1] == found["sentence"]


def test_killed_within_a_session_it_goes_on_at_once(ioflame: Ioflame, compare: list[str], tmp_path: Path) -> None:
    command = [*compare, "--null=db_bench", "--sessions=1", "--blocks=1"]
    process = ioflame.start(*command)
    # Its first arm has a directory then, and no block is on record.
    wait_for(process, "warm it up")
    process.kill()
    process.communicate()
    going = only_comparison(tmp_path)
    code, _, err = ioflame.run(*command, f"--resume={going.directory}")
    assert code == 0, err
    sessions = ComparisonRun.open(going.directory).record.sessions
    assert [(session.number, session.whole, session.ended) for session in sessions] == [
        (1, False, "killed"), (2, True, ""),
    ]  # fmt: skip


@pytest.mark.alone
@pytest.mark.needs("co-re")
def test_one_read_in_fifty_that_sleeps_is_in_the_99th_percentile_and_in_slow_queries(
    ioflame: Ioflame, compare: list[str], shim: Path
) -> None:
    slow = f"--arm=slow=LD_PRELOAD={shim} SHIM_SLEEP_NS=20000000 SHIM_SLEEP_EVERY=50 db_bench"
    plain = f"--arm=plain=LD_PRELOAD={shim} db_bench"
    observed = ["--collect=tail whose", "--duration=3"]
    code, out, err = ioflame.run(
        *compare, plain, slow, *observed, "--sessions=4", "--blocks=1", "--no-twin", "--json", seconds=900
    )
    assert code == 0, err
    (arm,) = json.loads(out)["arms"]
    p99 = arm["decisions"]["p99"]
    assert p99["outcome"] == Outcome.REGRESSED, p99
    # A nap is not shorter than it was asked for.
    assert p99["arm_value"] >= 20_000 and p99["difference"]["sessions"] == 4
    changes = {one["name"]: {row["name"]: row for row in one["rows"]} for one in arm["accounts"]}
    whole, *rows = changes["slow"].values()
    nap = max(rows, key=lambda row: row["change"])
    assert nap["name"].startswith("sleep in ") and nap["low"] > 10_000, rows
    assert sum(row["change"] for row in rows) == pytest.approx(whole["change"], abs=0.02)
    # Both arms read the same: as many requests for a query, of the same kinds.
    for row in changes["reads"].values():
        assert row["low"] <= 0 <= row["high"], changes["reads"]


def test_an_arm_that_cannot_open_the_tree_is_not_comparable(
    ioflame: Ioflame, compare: list[str], tmp_path: Path
) -> None:
    few = script(tmp_path / "few-levels", 'exec db_bench "$@" --num_levels=2')
    code, out, err = ioflame.run(*compare, "--arm=a=db_bench", f"--arm=b={few}")
    assert code == 1, err
    last = out.splitlines()[-1]
    assert last.startswith("not comparable (arm b cannot open the tree: ")
    assert "levels" in last  # RocksDB's own words


@pytest.mark.alone
@pytest.mark.by_hand
class TestKnownFaults:
    """A library that is preloaded into the client makes it slower by a known time."""

    def test_killed_at_once_nothing_runs_or_stays_stopped(self, ioflame: Ioflame, compare: list[str]) -> None:
        process = ioflame.start(*compare, "--null=db_bench")
        wait_for(process, "block 1")
        tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        supervised = [
            int(pid) for task in tasks for pid in Path(f"/proc/{task}/task/{task}/children").read_text().split()
        ]
        assert len(supervised) == 2
        handles = [os.pidfd_open(pid) for pid in [*supervised, *map(int, tasks)]]
        process.kill()
        process.communicate()
        for handle in handles:
            assert select.select([handle], [], [], 20)[0]
            os.close(handle)

    def test_an_arm_that_dies_is_named(self, ioflame: Ioflame, compare: list[str], tmp_path: Path) -> None:
        process = ioflame.start(*compare, "--null=db_bench")
        # The first is on record then.
        wait_for(process, "block 2")
        going = only_comparison(tmp_path)
        victim = next(p for p in going.record.sessions[0].processes if p.arm == "B")
        pid = open_run(going.directory / victim.directory).record.pid
        assert pid > 0
        os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1, err
        assert "arm B: the workload ended in the middle of the measurement: killed by SIGKILL" in err
        assert f"--resume {going.directory}" in err
        code, _, err = ioflame.run(*compare, "--null=db_bench", f"--resume={going.directory}", "--delta=3%")
        assert code == 2 and "delta: 0.02 then, 0.03 now" in err

    def test_what_it_adds_is_found_with_its_size_and_in_its_row(
        self, ioflame: Ioflame, compare: list[str], shim: Path
    ) -> None:
        shims = [f"--arm={name}=LD_PRELOAD={shim} SHIM_SPIN_NS={spun} db_bench" for name, spun in SPINS.items()]
        arms = ["--arm=plain=db_bench", *shims[1:]]
        # Two microseconds are 6 % of the CPU of a query: of four sessions an interval is too wide for them.
        options = ["--duration=2", "--sessions=12", "--blocks=2", "--no-twin", "--json"]
        code, out, err = ioflame.run(*compare, *arms, *options, seconds=2700)
        assert code == 0, err
        found = {arm["arm"]: arm for arm in json.loads(out)["arms"]}
        rows = {name: {row["name"]: row for row in arm["budget"]["rows"]} for name, arm in found.items()}
        reads = found["two"]["decisions"]["readsPerQuery"]["base_value"]
        for name, spun in list(SPINS.items())[1:]:
            read_call = rows[name]["libc+k"]
            assert read_call["low"] <= spun / 1e3 * reads <= read_call["high"]
        assert rows["two"]["libc+k"]["low"] > 0
        assert found["two"]["decisions"]["cpuPer"]["outcome"] == Outcome.REGRESSED
        # No other row of any arm differs, and cpuPer of the one that spins for no time has no verdict of a change.
        for name, of in rows.items():
            told = [row["name"] for row in of.values() if row["low"] > 0 or row["high"] < 0]
            assert set(told) <= ({"libc+k", "on CPU", "latency"} if name == "two" else {"libc+k", "on CPU"}), told
        assert found["zero"]["decisions"]["cpuPer"]["outcome"] not in (Outcome.REGRESSED, Outcome.IMPROVED)

    def test_a_sleep_moves_a_wait_and_not_the_cpu(self, ioflame: Ioflame, compare: list[str], shim: Path) -> None:
        slept = f"--arm=slept=LD_PRELOAD={shim} SHIM_SLEEP_NS=1000000 db_bench"
        # Of two sessions an interval is 250 times its error: they would have to agree to 0.4 %.
        options = ["--duration=1", "--sessions=4", "--blocks=2", "--no-twin", "--collect=perf offcpu", "--json"]
        code, out, err = ioflame.run(*compare, "--arm=plain=db_bench", slept, *options)
        assert code == 0, err
        (arm,) = json.loads(out)["arms"]
        rows = {row["name"]: row for row in arm["budget"]["rows"]}
        # A sleep is a switch or two more on the CPU, and a thousand times that off it.
        assert rows["sleep"]["change"] > 900
        assert abs(rows["on CPU"]["change"]) < 0.1 * rows["sleep"]["change"]
        # Who sleeps is woken, and waits for a CPU then.
        waits = {row["name"] for row in rows.values() if row["kind"] == "wait" and row["low"] > 0}
        assert {"sleep"} <= waits <= {"sleep", "woken"}
        assert rows["woken"]["change"] < 0.1 * rows["sleep"]["change"]


def test_whole_command_lines_are_arms(ioflame: Ioflame, loaded: Path, tmp_path: Path) -> None:
    """Of one client with another block cache, written in other forms and another order: that alone differs."""
    before = {path.name: path.stat().st_mtime_ns for path in loaded.iterdir()}
    common = f"--benchmarks=readrandom --use_existing_db --use_direct_reads --db={loaded} --num=400000 --num_levels=8"
    sizes = "--key_size=20 --value_size=400"
    arms = [
        f"--arm=small=db_bench {common} {sizes} --duration=60 --cache_size=1048576",
        f"--arm=large=db_bench --cache_size 268435456 --duration 30 {sizes.replace('=', ' ')} {common}",
    ]
    command = ["compare", "--scale=smoke", "--duration=1", f"--out={tmp_path}", *arms]
    command += ["--no-twin", "--sessions=1", "--blocks=1", "--seed=7"]
    code, out, err = ioflame.run(*command, "--plan")
    assert code == 0 and "command line: --cache_size: 1048576 | 268435456" in out, err + out
    assert "--key_size" not in out
    code, out, err = ioflame.run(*command)
    assert code == 0, err + out
    record = only_comparison(tmp_path).record
    flags = {name: values for name, values in record.differing.items() if name.startswith("-")}
    assert flags == {"--cache_size": ["1048576", "268435456"]} and record.not_comparable == []
    assert "command line: --cache_size: 1048576 | 268435456" in out
    assert "--cache_size" in (only_comparison(tmp_path).directory / "compare.html").read_text(encoding="utf-8")
    (block,) = record.whole_sessions()[0].counted()
    queries = {arm: sum(one.window.counters.queries or 0 for one in block.windows if one.arm == arm) for arm in
               ("small", "large")}  # fmt: skip
    assert all(queries.values())
    assert {path.name: path.stat().st_mtime_ns for path in loaded.iterdir()} == before, "the database is left as it is"


def test_command_lines_that_cannot_be_arms_are_refused(ioflame: Ioflame, loaded: Path, tmp_path: Path) -> None:
    common = f"db_bench --benchmarks=readrandom --use_existing_db --db={loaded} --duration=60"

    def refused(*arms: str) -> str:
        code, out, err = ioflame.run("compare", f"--out={tmp_path}", *(f"--arm={arm}" for arm in arms))
        assert (code, out) == (2, ""), err
        return err

    assert "same program with the same flags" in refused(f"a={common} --threads=1", f"b={common} --threads 1")
    assert "arms run different benchmarks" in refused(f"a={common}", f"b={common} --benchmarks=overwrite")
    assert "does not know --no_such_flag" in refused(f"a={common}", f"b={common} --no_such_flag=1")
    assert "there is no database of RocksDB" in refused(f"a={common} --db={tmp_path}", f"b={common} --threads=2")
    assert "is a client alone, and another arm is a whole command line" in refused(f"a={common}", "b=db_bench")
