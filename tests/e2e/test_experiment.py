"""A small experiment, and a whole one: killed, interrupted, resumed, and their tables made from what they left."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from ground.results.experiment import ExperimentRun, StepRecord
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.explained import assert_explained
from tests.e2e.test_faults import wait_for
from viz.export.benchmark_tsv import HEADER

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

OWN = """
about = "small enough for a test"
steps = [
  { prepare = "load" }, { prepare = "overwritesome" }, { prepare = "flush_mt_l0" },
  { baseline = "fio" }, { measure = "readrandom", levels = "several" },
  { prepare = "compact" }, { measure = "readrandom3", levels = "one" },
]
[orders]
bloom = "falls"
"libc+k" = "rises"
"""
SMALLER = """
about = "a load, and reads by fio and by the engine"
steps = [{ prepare = "load" }, { baseline = "fio" }, { measure = "readrandom" }]
"""


def the_tables_are_those_of_the_steps(out: str, steps: list[StepRecord], readrandom: RunRecord) -> None:
    """What is printed of any experiment, and the figures of readrandom made again from its run and from fio's."""
    for title in ("Writes that made", "fio, random reads", "RocksDB (plain windows", "Models", "owner view, 1 user",
                  "leaf view", "Proofs"):  # fmt: skip
        assert title in out, title
    assert not re.search(r" FAILED$|^Failed checks", out, re.MULTILINE)
    (baseline,) = [s.baseline for s in steps if s.baseline]
    row = next(line.split() for line in out.splitlines() if line.split()[:2] == ["readrandom", "1"])
    assert float(row[10]) == pytest.approx(readrandom.metrics["iops"] / baseline.iops, abs=0.001)
    assert float(row[12]) == pytest.approx(readrandom.metrics["cpuPerRead"] - baseline.cpu_per, abs=0.01)
    # Its interval stands below it, and the share of each category adds up to the CPU of a query.
    low, high = (
        next(line.split() for line in out.splitlines() if line.split()[:1] == [what]) for what in ("from", "to")
    )
    assert float(low[1]) <= float(row[2]) <= float(high[1])
    owner = out[out.index("owner view") : out.index("leaf view")]
    us = [float(m) for m in re.findall(r"^  (?!all)\S+ +[\d.]+ +\S+ +([\d.]+)", owner, re.MULTILINE)]
    assert len(us) == 10
    assert sum(us) == pytest.approx(readrandom.metrics["cpuPer"], abs=0.05)


@pytest.mark.by_hand
def test_an_experiment_that_is_killed_goes_on_where_it_was(ioflame: Ioflame, tmp_path: Path) -> None:
    own = tmp_path / "small.toml"
    own.write_text(OWN)
    words: list[str | Path] = ["experiment", own, "--scale=smoke", "--num-keys=800000", "--duration=3", "--users=1"]
    words += ["--callgraph=fp", "--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    first = ioflame.start(*words)
    wait_for(first, "step 6 of 7")  # everything but the compaction and what follows is done
    first.send_signal(signal.SIGKILL)
    first.communicate()
    (directory,) = (tmp_path / "out").iterdir()
    before = ExperimentRun.open(directory).record
    assert [s.status for s in before.steps] == ["done"] * 5 + ["todo"] * 2

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0, err + out
    after = ExperimentRun.open(directory).record
    assert [s.status for s in after.steps] == ["done"] * 7
    # Nothing was measured twice: what was done then is as it was.
    assert after.steps[:5] == before.steps[:5]
    runs = {s.step: open_run(directory / s.directory).record for s in after.steps if s.kind == "measure"}
    assert len([d for d in directory.iterdir() if d.is_dir()]) == 2
    assert runs["readrandom"].database["levels"].count("files") > 1
    assert runs["readrandom3"].database["levels"].count("files") == 1
    the_tables_are_those_of_the_steps(out, after.steps, runs["readrandom"])
    assert "Differences between steps" in out and "Orders of the published table" in out
    written = {s.step: s.writes for s in after.steps if s.writes}
    assert written.keys() == {"load", "overwritesome"}
    assert written["load"].sum_gb == pytest.approx(800_000 * 420 / 2**30, rel=0.1)
    table = [line.split("\t") for line in (directory / "summary.tsv").read_text().splitlines()]
    assert table[0] == list(HEADER)
    tests = [line[HEADER.index("test")] for line in table[1:]]
    assert tests == ["load.t1", "overwritesome.t1", "readrandom.t1", "readrandom3.t1"]
    assert {len(line) for line in table} == {len(HEADER)}
    assert table[1][HEADER.index("w_amp")] == "1.0"  # keys in order are written once

    # The proofs are the analysis's: made again from what the run recorded, and shown wherever checks are.
    step = directory / after.steps[6].directory
    code, _, err = ioflame.run("analyse", step)
    assert code == 0, err
    again = {check.name: check for check in open_run(step).record.checks}
    assert again == {check.name: check for check in runs["readrandom3"].checks}
    for name in ("LSM tree", "memtable and L0", "levels after", "writes while reading", "filters unused"):
        assert again[name].verdict.value == "ok", name
        assert name in (step / Files.SUMMARY).read_text()
        assert name in (step / Files.REPORT).read_text()

    for other, says in (
        ("--users=2", "was laid out with other steps, users or repeats"),
        ("--duration=4", "was measured with other options: duration: 3 then, 4 now"),
        ("--freq=99", "was measured with other options: frequency: 999 then, 99 now"),
    ):
        code, _, err = ioflame.run(*words, other, "--resume", directory)
        assert code == 2
        assert says in err


def test_a_killed_load_is_loaded_again_and_an_interrupted_step_measured_again(ioflame: Ioflame, tmp_path: Path) -> None:
    own = tmp_path / "smaller.toml"
    own.write_text(SMALLER)
    words: list[str | Path] = ["experiment", own, "--scale=smoke", "--num-keys=400000", "--duration=2", "--users=1"]
    words += ["--callgraph=fp", "--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    first = ioflame.start(*words)
    wait_for(first, "load 400,000 keys")
    # However long the second takes, the first gets no further.
    first.send_signal(signal.SIGSTOP)
    # The database is the first one's: another is refused with its pid, and harms nothing.
    code, _, err = ioflame.run(*words[:-2], "--out", tmp_path / "second")
    assert code == 2
    assert f"in use by the ioflame with pid {first.pid}" in err
    assert not list((tmp_path / "second").iterdir())
    first.kill()
    first.communicate()
    (directory,) = (tmp_path / "out").iterdir()
    assert [s.status for s in ExperimentRun.open(directory).record.steps] == ["todo"] * 3

    second = ioflame.start(*words, "--resume", directory)
    wait_for(second, "warm-up: until")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130, err
    assert f"--resume {directory}" in err
    assert ioflame.left_behind() == []
    record = ExperimentRun.open(directory).record
    assert [s.status for s in record.steps] == ["done", "done", "todo"]
    (unfinished,) = [d for d in directory.iterdir() if d.is_dir()]
    assert open_run(unfinished).record.missing  # kept, and it says what it lacks

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0, err + out
    after = ExperimentRun.open(directory).record
    assert after.steps[:2] == record.steps[:2]
    assert after.steps[2].directory != unfinished.name
    measured = open_run(directory / after.steps[2].directory).record
    assert measured.missing == []
    assert_explained(ioflame, measured, *words[1:])
    the_tables_are_those_of_the_steps(out, after.steps, measured)


def test_an_experiment_without_fio_is_refused_before_anything_is_loaded(ioflame: Ioflame, tmp_path: Path) -> None:
    """A real PATH with everything but fio."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in os.get_exec_path():
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "fio" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    env = shutil.which("env")
    assert env is not None
    code, out, err = ioflame.run(
        "experiment", "io-efficiency", "--scale=smoke", "--db-dir", tmp_path / "db", "--out", tmp_path / "out",
        prefix=(env, f"PATH={programs}"),
    )  # fmt: skip
    assert (code, out) == (3, ""), err
    assert "fio is not installed" in err
    assert "apt-get install fio" in err
    assert not (tmp_path / "db").exists()


@pytest.mark.needs("loop")
@pytest.mark.parametrize("words", [["experiment", "io-efficiency"], ["profile"]])
def test_a_read_only_directory_for_the_database_is_refused(ioflame: Ioflame, tmp_path: Path, words: list[str]) -> None:
    """Root may write into any directory, but not on a file system that is mounted read-only."""
    fixed = tmp_path / "fixed"
    fixed.mkdir()
    script = f'mount --bind {fixed} {fixed} && mount -o remount,bind,ro {fixed} && exec "$@"'
    code, out, err = ioflame.run(
        *words, "--scale=smoke", "--db-dir", fixed, "--out", tmp_path / "out",
        prefix=("unshare", "-m", "bash", "-c", script, "bash"),
    )  # fmt: skip
    assert (code, out) == (3, ""), err
    assert f"{fixed} cannot be written to" in err
    assert "DB_DIR=<a directory you own>" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["io-efficency"], "there is no experiment io-efficency"),
        (["io-efficiency", "--users=0"], "USERS='0' is no list of numbers"),
        (["io-efficiency", "--repeats=many"], "REPEATS='many' is no list of numbers"),
        (["io-efficiency", "--resume=/no/such"], "/no/such/experiment.json cannot be read"),
        (["io-efficiency", "--threads=6"], "THREADS=6 has no effect on an experiment"),
        (["io-efficiency", "readrandom"], "unrecognized arguments: readrandom"),
        (["io-efficiency", "--user", "1", "6"], "unrecognized arguments: 6"),
    ],
)
def test_what_makes_no_sense_is_refused(ioflame: Ioflame, tmp_path: Path, words: list[str], says: str) -> None:
    code, out, err = ioflame.run("experiment", *words, "--db-dir", tmp_path / "db", "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
    assert not list(tmp_path.rglob("*.sst"))
