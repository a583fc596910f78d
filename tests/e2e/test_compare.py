"""`ioflame compare` on the real client: interrupted and gone on with, refused, and against clients of known faults."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from ground.results.comparison import ComparisonRun
from ground.results.differences import Outcome
from ground.results.files import Files
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import programs_below, script, wait_for
from tests.figures import Report
from tests.ioflame.asked import asked, refused
from tests.programs import compiled
from tests.until import until

pytestmark = pytest.mark.needs("perf", "db_bench")


@pytest.fixture(scope="module")
def shim(place: Path) -> Path:
    source = Path(__file__).with_name("shim.c")
    return compiled(source, place / "shim.so", "-O2", "-shared", "-fPIC", "-ldl")


@pytest.fixture
def compare(short: list[str], tmp_path: Path) -> list[str]:
    """Arguments of a short comparison on the loaded database."""
    return ["compare", *short[1:-1], "--duration=1", f"--out={tmp_path}"]


def only_comparison(out: Path) -> ComparisonRun:
    (directory,) = out.glob("*-compare-*")
    return ComparisonRun.open(directory)


@pytest.mark.long
def test_it_goes_on_after_it_or_an_arm_was_killed(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], compare: list[str], loaded: Path, tmp_path: Path
) -> None:
    other = script(tmp_path / "again", 'exec db_bench "$@"')
    command = [*compare, f"--out={tmp_path / 'out'}", "--arm=plain=db_bench", f"--arm=again={other}", "--no-twin"]
    command += ["--sessions=1", "--blocks=1", "--seed=7"]
    process = ioflame.start(*command)
    # Its first arm has a directory then, and no block is on record.
    wait_for(process, "warm it up")
    process.kill()
    process.communicate()
    until(lambda: not ioflame.left_behind())  # and no arm stays stopped
    going = only_comparison(tmp_path / "out")
    assert "delta: 0.02 then, 0.03 now" in refused(capsys, *command, f"--resume={going.directory}", "--delta=3%")
    process = ioflame.start(*command, f"--resume={going.directory}")
    wait_for(process, "warm it up", "warm it up")
    # Both arms read the very same blocks of the device, and one of them is stopped.
    arms = loaded.with_name(f"{loaded.name}.arms")
    inodes = [{f.name: f.stat().st_ino for f in arm.glob("*.sst")} for arm in (loaded, *arms.iterdir())]
    assert len(inodes) == 3 and inodes[0] and inodes[0] == inodes[1] == inodes[2]
    os.kill(programs_below(process, "db_bench")[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert re.search("arm (plain|again): the workload ended in the middle of the measurement: killed by SIGKILL", err)
    assert not arms.exists()
    assert f"--resume {going.directory}" in err

    code, out, err = ioflame.run(*command, f"--resume={going.directory}", "--json")
    assert code in (0, 1), err
    found, record = json.loads(out), ComparisonRun.open(going.directory).record
    assert [session.whole for session in record.sessions] == [False, False, True]
    assert record.sessions[0].ended == "killed"
    assert record.plan.seed == 7 == found["seed"]
    (session,) = record.whole_sessions()
    (block,) = session.counted()
    assert sorted(block.order) == ["again", "again", "plain", "plain"] and block.order == block.order[::-1]
    edges = [edge for slot in block.windows for edge in (slot.window.start_ns, slot.window.end_ns)]
    assert edges == sorted(edges) and min(slot.window.seconds for slot in block.windows) >= 1
    for arm in ("again", "plain"):
        # What a stopped process had finished is known as well as that of one that runs.
        counted = [slot.window.counters for slot in block.windows if slot.arm == arm]
        assert sum(c.queries or 0 for c in counted) > 0 and sum(c.read_calls for c in counted) > 0
    # One session says nothing of the next: no verdict, and every printed number is in the JSON.
    decisions = found["arms"][0]["decisions"]
    assert {decisions[name]["outcome"] for name in ("qps", "cpuPer")} <= {Outcome.UNDECIDED, Outcome.NOT_COMPARABLE}
    for process_of in session.processes:
        run = open_run(going.directory / process_of.directory)
        assert run.path(Files.PROFILE).exists() and run.record.missing == []
        assert "library libc.so" in run.record.tools
    # The same again, from its files: nothing is measured, and the verdict is the last line.
    code, out, err = asked(capsys, "compare", going.directory)
    assert code in (0, 1) and out.splitlines()[-1] == found["sentence"], err


@pytest.mark.long
@pytest.mark.needs("co-re")
def test_one_read_in_fifty_that_sleeps_is_in_the_99th_percentile_and_in_slow_queries(
    ioflame: Ioflame, compare: list[str], shim: Path
) -> None:
    # One arm sleeps 100 ms in one read of fifty, longer than the disk does. The other has slow queries, too: where the
    # second before a window was the slower one, there may be none in the window that is as slow as its slowest.
    arms = [f"--arm=plain=LD_PRELOAD={shim} SHIM_SLEEP_NS=10000000 SHIM_SLEEP_EVERY=15 db_bench"]
    arms += [f"--arm=slow=LD_PRELOAD={shim} SHIM_SLEEP_NS=100000000 SHIM_SLEEP_EVERY=50 db_bench"]
    options = ["--collect=tail requests", "--blocks=1", "--sessions=2", "--duration=2", "--no-twin", "--json"]
    code, out, err = ioflame.run(*compare, *arms, *options)
    assert code in (0, 1), err
    (arm,) = json.loads(out)["arms"]
    # A nap is not shorter than it was asked for.
    assert arm["decisions"]["p99"]["arm_value"] >= 100_000
    changes = {one["name"]: {row["name"]: row for row in one["rows"]} for one in arm["accounts"]}
    whole, *rows = changes["slow"].values()
    nap = max(rows, key=lambda row: row["change"])
    assert nap["name"].startswith("sleep in "), rows
    assert sum(row["change"] for row in rows) == pytest.approx(whole["change"], abs=0.02)
    assert changes["reads"]


@pytest.mark.long
def test_an_arm_that_cannot_open_the_tree_is_not_comparable(
    ioflame: Ioflame, compare: list[str], tmp_path: Path
) -> None:
    few = script(tmp_path / "few-levels", 'exec db_bench "$@" --num_levels=2')
    code, out, err = ioflame.run(*compare, "--arm=a=db_bench", f"--arm=b={few}")
    assert code == 1, err
    last = out.splitlines()[-1]
    assert last.startswith("not comparable (arm b cannot open the tree: ")
    assert "levels" in last  # RocksDB's own words


@pytest.mark.long
def test_whole_command_lines_are_arms(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], loaded: Path, tmp_path: Path
) -> None:
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
    code, out, err = asked(capsys, *command, "--plan")
    assert code == 0 and "command line: --cache_size: 1048576 | 268435456" in out, err + out
    assert "--key_size" not in out
    code, out, err = ioflame.run(*command)
    assert code in (0, 1), err + out
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


# Nanoseconds in each read call; the first is the base.
SPINS = {"plain": 0, "zero": 0, "half": 500, "two": 2000}


def budgets(ioflame: Ioflame, *command: str) -> dict[str, Any]:
    """Of each arm what is decided of it, and its rows of the latency budget."""
    code, out, err = ioflame.run(*command, "--json", seconds=2700)
    assert code in (0, 1), err
    return {
        arm["arm"]: {**arm, "rows": {row["name"]: row for row in arm["budget"]["rows"]}}
        for arm in json.loads(out)["arms"]
    }


def told(figure: Report, name: str, row: dict[str, Any], expected: str) -> None:
    figure(f"{name}, us a query", row["change"], row["low"], row["high"], expected=expected)


@pytest.mark.by_hand
@pytest.mark.needs("co-re")
class TestKnownFaults:
    """What is found of clients that a preloaded library makes slower by a known time, as figures."""

    def test_what_a_read_call_spins_is_in_its_row_alone(
        self, ioflame: Ioflame, compare: list[str], shim: Path, figure: Report
    ) -> None:
        shims = [f"--arm={name}=LD_PRELOAD={shim} SHIM_SPIN_NS={spun} db_bench" for name, spun in SPINS.items()]
        # Two microseconds are 6 % of the CPU of a query: of four sessions an interval is too wide for them.
        options = ["--duration=2", "--sessions=12", "--blocks=2", "--no-twin"]
        found = budgets(ioflame, *compare, "--arm=plain=db_bench", *shims[1:], *options)
        reads = found["two"]["decisions"]["readsPerQuery"]["base_value"]
        for name, spun in list(SPINS.items())[1:]:
            told(figure, f"{name}: libc+k", found[name]["rows"]["libc+k"], f"{spun / 1e3 * reads:.2f}")
            others = [row["name"] for row in found[name]["rows"].values() if row["low"] > 0 or row["high"] < 0]
            figure(f"{name}: rows that differ ({', '.join(others)}); {found[name]['decisions']['cpuPer']['outcome']}",
                   len(others), expected="libc+k, on CPU and latency of `two`: regressed")  # fmt: skip

    def test_a_sleep_moves_a_wait_and_not_the_cpu(
        self, ioflame: Ioflame, compare: list[str], shim: Path, figure: Report
    ) -> None:
        slept = f"--arm=slept=LD_PRELOAD={shim} SHIM_SLEEP_NS=1000000 db_bench"
        # Of two sessions an interval is 250 times its error: they would have to agree to 0.4 %.
        options = ["--duration=1", "--sessions=4", "--blocks=2", "--no-twin", "--collect=perf offcpu"]
        rows = budgets(ioflame, *compare, "--arm=plain=db_bench", slept, *options)["slept"]["rows"]
        told(figure, "sleep", rows["sleep"], "> 900")
        told(figure, "on CPU", rows["on CPU"], "a switch or two")
        told(figure, "woken", rows["woken"], "< a tenth of the sleep")
