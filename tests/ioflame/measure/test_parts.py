"""Small parts of measuring: options, one observer by itself, what a run keeps, sweeps, cells and estimates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collectors.perf import Plan
from ground.errors import HostError, MeasurementError, UsageError
from ground.results.cells import CellOutcome, CellsRecord, CellsRun
from ground.results.checks import Verdict
from ground.results.run import Run, open_run
from ground.results.study import StudyRun
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.alone import watch
from ioflame.measure.compare.arm_process import padding
from ioflame.measure.compare.arms import AskedArm, CompareOptions
from ioflame.measure.experiment.job import CellsJob, step_seconds
from ioflame.measure.experiment.steps import command_step
from ioflame.measure.job import cache_of, describe_tree
from ioflame.measure.recorded import commands_of, recorded
from ioflame.measure.study import begin_or_resume, on_record, refuse_equal
from ioflame.measure.sweep import check_swept, offered_of
from tests.ioflame.asked import options
from tests.ioflame.measure.test_turns import Watcher
from tests.records import run_record
from workloads.cells import Cell, CellRun, Cells
from workloads.engine import LevelSize, Tree
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Scale


def test_sizes_and_counts_are_read_as_people_write_them_and_left_to_the_scale_without() -> None:
    found = options()
    assert (found.workload, found.engine, found.threads, found.frequency) == ("readrandom", "rocksdb", 1, 999)
    assert (found.num_keys, found.cache_size, found.duration) == (None, None, None)
    assert options("--num-keys", "", "--db-bench", "").num_keys is None
    found = options("--num-keys", "10M", "--cache-size", "64M", "--duration", "30")
    assert (found.num_keys, found.cache_size, found.duration) == (10_000_000, 64 << 20, 30)


def test_records_of_single_queries_are_asked_for_by_themselves_or_among_what_is_collected() -> None:
    assert (options().tail, options("--tail", "force", "--threshold-us", "500").threshold_us) == (None, 500)
    found = options("--collect", "perf,tail", "--threshold-us", "500")
    assert (found.tail, found.collect, found.threshold_us) == (None, ("perf", "tail"), 500)


QUIET = Reporter(quiet=True)


class EndsInWindow(Watcher):
    """Its process, which reads a pipe, ends once the window is open."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__("null")
        self.process = process

    def open(self) -> None:
        super().open()
        assert self.process.stdin is not None
        self.process.stdin.close()


def test_a_window_by_itself_ends_with_the_last_of_its_processes_or_after_its_time() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one, subprocess.Popen(["true"]) as other:
        assert watch(Watcher("null"), [one.pid], 0.05, QUIET).checks == []
        observer = EndsInWindow(one)
        ended = watch(observer, [one.pid, other.pid], 600, QUIET)
    assert observer.does == ["attach", "open", "close", "detach"] and not ended.interrupted
    (check,) = ended.checks
    assert check.verdict is Verdict.WARN and "of 600 s: every process has ended" in check.value


class EndsFirst(EndsInWindow):
    """Its process ends while it is attached, and what it is attached to refuses."""

    def attach(self) -> None:
        self.process.kill()
        self.process.wait()
        raise HostError("the kernel refused a program: No such process", mend="ioflame doctor")


def test_a_process_that_ends_while_it_is_attached_to_is_said_to_have_ended() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one:
        with pytest.raises(MeasurementError, match=f"process {one.pid} ended while") as caught:
            watch(EndsFirst(one), [one.pid], 5, QUIET)
        assert caught.value.means == "nothing was measured" and "doctor" not in caught.value.mend
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one, pytest.raises(HostError, match="the kernel refused"):
        watch(EndsFirst(one), [one.pid, os.getpid()], 5, QUIET)


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


def job_of(cell: Cell, scale: Scale, out: Path = Path("runs")) -> CellsJob:
    given = options(f"--out={out}", "--scale=smoke")
    cells = Cells(about="", shows="", cannot="", columns=[], holds=[], cells=[cell], scale={"smoke": scale})
    plan = Plan("cpu-clock", 999, "system", "fp", ())
    return CellsJob(given, cells, engine_named("rocksdb"), {}, 1_000_000, 1, out, plan, {})


def test_an_experiment_says_what_it_will_take_before_it_begins() -> None:
    engine, shape = engine_named("rocksdb"), DatabaseShape(1_000_000)
    scale = Scale("", duration=10, warmup=60)
    longer, two = (
        Scale("", duration=600, warmup=120),
        Scale("", duration=10, warmup=60, collect=("perf", "pmp")),
    )
    assert step_seconds(engine, "baseline", "fio", shape, longer) == 62
    measured = step_seconds(engine, "measure", "readrandom", shape, two)
    assert measured == step_seconds(engine, "measure", "readrandom", shape, scale) + 20
    load = step_seconds(engine, "prepare", "load", shape, scale)
    assert step_seconds(engine, "prepare", "load", DatabaseShape(2_000_000), scale) > load
    first, second = job_of(Cell(name="x", steps=["load", "readrandom", "fwdrange"]), scale).estimate()
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


class Going(StudyRun[dict[str, int]]):
    file = "going.json"
    form = dict[str, int]
    what = "a test"

    @staticmethod
    def name_of(record: dict[str, int]) -> str:
        return f"test-{record['steps']}"


def test_what_was_begun_goes_on_where_its_record_is(tmp_path: Path) -> None:
    """What a broken record is called: test_runs.py."""
    begun = Going.create(tmp_path, {"steps": 3})
    assert begun.directory.name.endswith("-test-3") and Going.is_in(begun.directory)
    begun.record["done"] = 1
    begun.save()
    assert Going.open(begun.directory).record == {"steps": 3, "done": 1}
    with pytest.raises(UsageError, match="is not the directory of a test"):
        Going.open(tmp_path)


def test_arms_of_one_identity_are_refused() -> None:
    refuse_equal({"a": ("bits", {"x": "1"}), "b": ("bits", {"x": "2"})}, "")
    with pytest.raises(UsageError, match="arms a and c are the same"):
        refuse_equal({"a": ("bits", {}), "b": ("others", {}), "c": ("bits", {})}, "--null a")


def test_what_differs_from_what_was_begun_is_named(tmp_path: Path) -> None:
    def record_of(threads: str, *cells: str, out: str = "runs") -> CellsRecord:
        runs = [CellOutcome(cell, turn, asked="1f") for cell in cells for turn in (1, 2)]
        return CellsRecord("mine", "now", 100, {"threads": threads, "out": out}, {}, {"engine": "7"}, runs)

    study = begin_or_resume(CellsRun, record_of("1", "a"), tmp_path, None)
    again = begin_or_resume(CellsRun, record_of("1", "a", out="elsewhere"), tmp_path, study.directory)
    assert again.record == study.record
    with pytest.raises(UsageError) as refused:
        begin_or_resume(CellsRun, record_of("2", "a", "b"), tmp_path, study.directory)
    says = "threads: 1 then, 2 now; runs of b: not given then, 2 now; steps of b: not given then, 1f now"
    assert refused.value.what == f"{study.directory} was begun with something else: {says}"


def test_a_step_is_on_record_however_it_ends(tmp_path: Path) -> None:
    outcome = CellOutcome("a", 1)
    study = CellsRun.create(tmp_path, CellsRecord("mine", "now", 1, {}, {}, {}, [outcome]))
    with pytest.raises(MeasurementError), on_record(study, outcome):
        outcome.why = "it failed"
        raise MeasurementError("it failed")
    (kept,) = CellsRun.open(study.directory).record.runs
    assert kept.why == "it failed" and kept.seconds == outcome.seconds > 0


LATENCY = {"p50": 100.0, "p75": 110.0, "p99": 700.0, "p99_9": 1700.0, "max": 2400.0}


def closing(**more: Any) -> dict[str, Any]:
    from_call = {"get": {"p50": 9.0, "p99": 9.0, "p99_9": 9.0}}
    role = {"operations": 1000, "ops_per_second": 100.0, "latency_from_call_us": from_call}
    return {"seconds": 10.0, "roles": {"readers": {**role, **more}}}


def test_latency_is_from_the_schedule_and_cpu_is_divided_by_the_queries() -> None:
    one = offered_of(closing(latency_from_schedule_us={"get": LATENCY}, late_us={"p99": 90.0}), 100.0, 0.5)
    assert one.latency == {"p50": 100.0, "p99": 700.0, "p99_9": 1700.0}
    assert (one.rate, one.per_second, one.late, one.cpu, one.overloaded) == (100.0, 100.0, 90.0, 500.0, False)


def test_what_is_overloaded_has_no_latency_though_calls_have() -> None:
    assert offered_of(closing(overloaded=True), 100.0, 0.5).latency == {}


def test_of_several_kinds_the_worst_is_taken() -> None:
    kinds = {"get": LATENCY, "seek": {**LATENCY, "p99": 900.0}}
    assert offered_of(closing(latency_from_schedule_us=kinds), 100.0, 0.5).latency["p99"] == 900.0


def test_without_a_query_there_is_no_cost_of_one() -> None:
    assert offered_of(closing(operations=0), 100.0, 0.5).cpu == 0.0


@pytest.mark.parametrize("workload", ["overwrite", "fillseq"])
def test_a_workload_that_only_writes_is_refused(workload: str) -> None:
    with pytest.raises(UsageError, match=f"{workload} only writes") as refused:
        check_swept(engine_named("rocksdb", client="ioflame"), workload)
    assert "readrandom" in refused.value.mend and "readwhilewriting" in refused.value.mend
    check_swept(engine_named("rocksdb", client="ioflame"), "readwhilewriting")


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo printed; exit 3", "bash: exit code 3"), ("echo printed", "bash: nothing of it was measured")],
)
def test_a_command_that_fails_or_is_too_short_is_a_failed_cell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, says: str
) -> None:
    cell = Cell(name="x", command=f"bash -c '{script}'")
    job = job_of(cell, Scale("s"), tmp_path)
    going = CellsRun.create(tmp_path / "out", CellsRecord("mine", "now", 1, {}, {}, {}, []))
    log = going.directory / "x.log"
    with pytest.raises(MeasurementError, match=says):
        command_step(job, CellRun(cell, 1, 1), CellOutcome("x", 1, 1), going, log, Reporter(quiet=True))
    out, err = capfd.readouterr()
    assert log.read_text(encoding="utf-8") == "printed\n" and "printed" not in out + err
