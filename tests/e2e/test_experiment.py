"""A small experiment, and a whole one: killed, interrupted, resumed, and their tables made from what they left."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from ground.results.cells import CellOutcome, CellsRun
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.explained import assert_explained
from tests.e2e.test_faults import wait_for
from tests.places import ROOT
from viz.export.benchmark_tsv import HEADER

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

SHIPPED = ROOT / "workloads" / "experiments" / "io-efficiency.toml"


def small(path: Path, once: str, *workloads: tuple[str, str], compacted: str = "") -> Path:
    """Like io-efficiency, of fewer cells: a workload on the tree of `once`, the others on that of `compacted`."""
    cells = [f'{{ name = "tree", once = true, steps = [{once}] }}']
    for number, (name, levels) in enumerate(workloads):
        if number and compacted:
            cells.append(f'{{ name = "compacted", once = true, steps = [{compacted}] }}')
        cells.append(f'{{ name = "{name}", levels = "{levels}", steps = ["fio", "{name}"] }}')
    holds = "" if compacted else "holds = []\n"
    path.write_text(f'like = "{SHIPPED}"\n{holds}cells = [{", ".join(cells)}]\n')
    return path


def the_tables_are_those_of_the_runs(out: str, outcome: CellOutcome, readrandom: RunRecord) -> None:
    """What is printed of any experiment, and the figures of readrandom made again from its run and from fio's."""
    for title in ("Writes that made", "fio, random reads", "owner view, 1 user", "leaf view", "Proofs and checks"):
        assert title in out, title
    assert "Checks that failed" not in out
    (baseline,) = outcome.baselines
    values = value_rows(out)
    of_cell = values["readrandom, 1 user"]
    assert float(of_cell["io.eff"]) == pytest.approx(readrandom.metrics["iops"] / baseline.iops, abs=0.001)
    assert float(of_cell["cpu.inc"]) == pytest.approx(readrandom.metrics["cpuPerRead"] - baseline.cpu_per, abs=0.01)
    # Its interval is printed below it, and the categories add up to the CPU of a query.
    assert float(values["from"]["qps"]) <= float(of_cell["qps"]) <= float(values["to"]["qps"])
    owner = out[out.index("Categories, owner view") : out.index("Categories, leaf view")]
    us = [float(m) for m in re.findall(r"^  (?!all)\S+ +[\d.]+ +\S+ +([\d.]+)", owner, re.MULTILINE)]
    assert len(us) == 10
    assert sum(us) == pytest.approx(readrandom.metrics["cpuPer"], abs=0.05)


def value_rows(out: str) -> dict[str, dict[str, str]]:
    """The table of the cells, which is the first; the ends of the first cell by what they are called."""
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["cell", "qps"])
    heads, *rows = [re.split(r"  +", line.strip()) for line in lines[start : start + 4]]
    return {row[0]: dict(zip(heads[1:], row[1:], strict=False)) for row in rows}


@pytest.mark.by_hand
def test_an_experiment_that_is_killed_goes_on_where_it_was(ioflame: Ioflame, tmp_path: Path) -> None:
    own = small(
        tmp_path / "small.toml", '"load", "overwritesome", "flush_mt_l0"', ("readrandom", "several"),
        ("readrandom3", "one"), compacted='"compact"',
    )  # fmt: skip
    words: list[str | Path] = ["experiment", own, "--scale=smoke", "--num-keys=800000", "--duration=3", "--users=1"]
    words += ["--callgraph=fp", "--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    first = ioflame.start(*words)
    wait_for(first, "run 3 of 4")  # everything but the compaction and what follows is done
    first.send_signal(signal.SIGKILL)
    first.communicate()
    (directory,) = (tmp_path / "out").iterdir()
    before = CellsRun.open(directory).record
    assert [run.status for run in before.runs] == ["done"] * 2 + ["todo"] * 2

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0 or "  failed: " in out, err + out
    after = CellsRun.open(directory).record
    assert [run.status for run in after.runs] == ["done"] * 4
    # Nothing was measured twice: what was done then is as it was.
    assert after.runs[:2] == before.runs[:2]
    runs = {step: open_run(directory / name).record for run in after.runs for step, name in run.runs.items()}
    assert len([d for d in directory.iterdir() if d.is_dir()]) == 2
    assert (runs["readrandom"].database.levels or "").count("files") > 1
    assert (runs["readrandom3"].database.levels or "").count("files") == 1
    the_tables_are_those_of_the_runs(out, after.runs[1], runs["readrandom"])
    assert "Differences between cells" in out and "1 user: the share of bloom falls" in out
    table = [line.split("\t") for line in (directory / "report.tsv").read_text().splitlines()]
    assert table[0] == list(HEADER)
    tests = [line[HEADER.index("test")] for line in table[1:]]
    assert tests == ["load.t1", "overwritesome.t1", "readrandom.t1", "readrandom3.t1"]
    assert {len(line) for line in table} == {len(HEADER)}
    assert table[1][HEADER.index("w_amp")] == "1.0"  # keys in order are written once
    assert after.runs[0].figures["load.sum_gb"] == pytest.approx(800_000 * 420 / 2**30, rel=0.1)

    # The proofs are the analysis's: made again from what the run recorded, and shown wherever checks are.
    step = directory / after.runs[3].runs["readrandom3"]
    code, _, err = ioflame.run("analyse", step)
    assert code == 0, err
    again = {check.name: check for check in open_run(step).record.checks}
    assert again == {check.name: check for check in runs["readrandom3"].checks}
    for name in ("LSM tree", "memtable and L0", "levels after", "writes while reading", "filters unused"):
        assert again[name].verdict.value == "ok", name
        assert name in (step / Files.SUMMARY).read_text()
        assert name in (step / Files.REPORT).read_text()

    for other, says in (
        ("--users=2", "was laid out with other cells, repeats or keys"),
        ("--duration=4", "was measured with another build or other options: duration: 3 then, 4 now"),
        ("--freq=99", "was measured with another build or other options: frequency: 999 then, 99 now"),
    ):
        code, _, err = ioflame.run(*words, other, "--resume", directory)
        assert code == 2
        assert says in err


def test_a_killed_load_is_loaded_again_and_an_interrupted_cell_measured_again(ioflame: Ioflame, tmp_path: Path) -> None:
    own = small(tmp_path / "smaller.toml", '"load"', ("readrandom", "any"))
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
    assert [run.status for run in CellsRun.open(directory).record.runs] == ["todo"] * 2

    second = ioflame.start(*words, "--resume", directory)
    wait_for(second, "warm-up: until")
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130, err
    assert f"--resume {directory}" in err
    assert ioflame.left_behind() == []
    record = CellsRun.open(directory).record
    assert [run.status for run in record.runs] == ["done", "todo"]
    (unfinished,) = [d for d in directory.iterdir() if d.is_dir()]
    assert open_run(unfinished).record.missing  # kept, and it says what it lacks

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0, err + out
    after = CellsRun.open(directory).record
    assert after.runs[0] == record.runs[0]
    assert after.runs[1].runs["readrandom"] != unfinished.name
    measured = open_run(directory / after.runs[1].runs["readrandom"]).record
    assert measured.missing == []
    assert_explained(ioflame, measured, *words[1:])
    the_tables_are_those_of_the_runs(out, after.runs[1], measured)


def test_an_experiment_without_fio_is_refused_before_anything_is_loaded(ioflame: Ioflame, tmp_path: Path) -> None:
    """A real PATH with everything but fio."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in os.get_exec_path():
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "fio" and not os.path.lexists(programs / program.name):
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


def test_an_experiment_of_an_older_ioflame_does_not_go_on(ioflame: Ioflame, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "experiment.json").write_text("{}")
    places = ("--db-dir", tmp_path / "db", "--out", tmp_path / "out")
    code, _, err = ioflame.run("experiment", "io-efficiency", "--scale=smoke", *places, "--resume", old)
    assert code == 2
    assert "older ioflame" in err and "ioflame report|show DIRECTORY/RUN" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["io-efficency"], "there is no experiment io-efficency"),
        (["io-efficiency", "--users=0"], "USERS='0' is no list of numbers"),
        (["io-efficiency", "--repeats=many"], "REPEATS='many' is no list of numbers"),
        (["io-efficiency", "--resume=/no/such"], "/no/such/cells.json cannot be read"),
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
