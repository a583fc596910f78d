"""Small parts of measuring: one observer by itself, what a run keeps of its processes, what an experiment takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.checks import Verdict
from ground.results.resumable import ResumableRun
from ground.results.run import Run, open_run
from ground.system.observer import NullObserver
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.alone import watch
from ioflame.measure.bisect.compared import check_symptom
from ioflame.measure.compare.arm_process import padding
from ioflame.measure.compare.options import AskedArm, CompareOptions
from ioflame.measure.estimate import plan_lines, step_seconds
from ioflame.measure.job import cache_of, describe_tree
from ioflame.measure.recorded import commands_of, recorded
from tests.ioflame.asked import options
from tests.records import run_record
from workloads.engine import LevelSize, Tree
from workloads.registry import engine_named
from workloads.steps import DatabaseShape

QUIET = Reporter(quiet=True)


class Kept(NullObserver):
    """Records the calls made to it, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def attach(self) -> None:
        self.told.append("attach")

    def open(self) -> None:
        self.told.append("open")

    def close(self) -> None:
        self.told.append("close")

    def detach(self) -> None:
        self.told.append("detach")


def test_a_window_by_itself_ends_with_the_last_of_its_processes() -> None:
    kept = Kept()
    with subprocess.Popen(["sleep", "0.05"]) as one, subprocess.Popen(["true"]) as other:
        ended = watch(kept, [one.pid, other.pid], 600, QUIET)
    assert kept.told == ["attach", "open", "close", "detach"] and not ended.interrupted
    (check,) = ended.checks
    assert check.verdict is Verdict.WARN and "of 600 s: every process has ended" in check.value


def test_a_window_that_lasts_as_long_as_was_asked_needs_no_word() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert watch(Kept(), [process.pid], 0.05, QUIET).checks == []
        finally:
            process.kill()


def test_what_fails_leaves_in_the_record_what_was_started_and_why_it_ended(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record(missing=["the perf window"]))
    with pytest.raises(MeasurementError), recorded(run, Children()) as children:
        children.start("sleeps", ["sleep", "600"])
        raise MeasurementError("the disk is full\nand more")
    found = open_run(run.directory).record
    assert found.missing == ["the perf window (the disk is full)"]
    (command,) = found.commands
    assert (command.name, command.argv, command.end) == ("sleeps", ["sleep", "600"], "killed by SIGTERM")
    with recorded(run, Children()) as children:
        assert children.start("fine", [sys.executable, "-c", ""]).wait(60) == 0
    assert [one.end for one in commands_of(children)] == ["exit code 0"]
    assert open_run(run.directory).record == found


def test_an_experiment_says_what_it_will_take_before_it_begins() -> None:
    engine, shape = engine_named("rocksdb"), DatabaseShape(1_000_000)
    assert step_seconds(engine, "baseline", "fio", shape, 600, 120, 1) == 62
    measured = step_seconds(engine, "measure", "readrandom", shape, 10, 60, 2)
    assert measured == step_seconds(engine, "measure", "readrandom", shape, 10, 60, 1) + 20
    load = step_seconds(engine, "prepare", "load", shape, 10, 60, 1)
    assert step_seconds(engine, "prepare", "load", DatabaseShape(2_000_000), 10, 60, 1) > load
    steps = [("prepare", "load"), ("measure", "readrandom"), ("measure", "fwdrange")]
    first, second = plan_lines(engine, steps, shape, 64 << 20, 10, 60)
    assert first.startswith("3 steps, about") and "1 prepare" in first and "2 measure" in first
    assert "1,000,000 keys" in second.replace("1M", "1,000,000") and "windows of 10 s after at most 60 s" in second


def test_a_tree_and_a_cache_are_told_by_their_sizes() -> None:
    assert "L2" in describe_tree(Tree([LevelSize(2, 12, 2)], 0))
    iodir = engine_named("rocksdb").configurations()["iodir"]
    assert cache_of(iodir, DatabaseShape(1000), 64 << 20) == 64 << 20


def test_the_base_of_a_comparison_is_its_first_arm_and_arms_are_padded_each_in_its_way() -> None:
    arms = tuple(AskedArm(name, name, options()) for name in "AB")
    assert CompareOptions(arms, "engine build").base.name == "A"
    sizes = {padding(1, session, arm) for session in range(8) for arm in "AB"}
    assert len(sizes) > 8 and all(size >= 0 for size in sizes)
    assert padding(1, 2, "A") == padding(1, 2, "A") != padding(2, 2, "A")


@pytest.mark.parametrize("symptom", ["qps", "cpuPer", "category:LRU"])
def test_a_search_is_for_a_figure_or_a_category(symptom: str) -> None:
    assert check_symptom(symptom) == symptom
    with pytest.raises(UsageError, match="--symptom category: is not known"):
        check_symptom("category:")


class Going(ResumableRun[dict[str, int]]):
    file = "going.json"
    form = dict[str, int]
    what = "a test"

    @staticmethod
    def name_of(record: dict[str, int]) -> str:
        return f"test-{record['steps']}"


def test_what_was_begun_goes_on_where_its_record_is(tmp_path: Path) -> None:
    begun = Going.create(tmp_path, {"steps": 3})
    assert begun.directory.name.endswith("-test-3") and Going.is_in(begun.directory)
    begun.record["done"] = 1
    begun.save()
    assert (
        Going.open(begun.directory).record
        == {"steps": 3, "done": 1}
        == json.loads((begun.directory / "going.json").read_text())
    )
    assert not Going.is_in(tmp_path)
    with pytest.raises(UsageError, match="is no directory of a test"):
        Going.open(tmp_path)
    (begun.directory / "going.json").write_text("{")
    with pytest.raises(MeasurementError):
        Going.open(begun.directory)
