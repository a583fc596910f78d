"""A small experiment, interrupted and resumed, and its tables made from what it left."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from ground.results.cells import CellOutcome, CellsRun
from ground.results.record import RunRecord
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import wait_for
from tests.e2e.explained import assert_explained
from tests.ioflame.asked import asked, refused
from tests.places import ROOT
from viz.export.benchmark_tsv import HEADER

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

SHIPPED = ROOT / "workloads" / "experiments" / "io-efficiency.toml"

# Like io-efficiency, of two cells: a tree, and readrandom on it, each without what was to hold.
_SMALL = f"""like = "{SHIPPED}"
holds = []
cells = [
  {{ name = "tree", once = true, steps = ["load"] }},
  {{ name = "readrandom", levels = "any", steps = ["fio", "readrandom"] }},
]
"""


def the_tables_are_those_of_the_runs(out: str, outcome: CellOutcome, readrandom: RunRecord) -> None:
    """What is printed of any experiment, and the figures of readrandom made again from its run and from fio's."""
    for title in ("Writes that made", "fio, random reads", "owner view, 1 user", "leaf view", "Proofs and checks"):
        assert title in out, title
    (baseline,) = outcome.baselines
    values = value_rows(out)
    of_cell = values["readrandom, 1 user"]
    assert float(of_cell["io.eff"]) == pytest.approx(readrandom.metrics["iops"] / baseline.iops, abs=0.001)
    # By seconds, of which each has its own part of the reads; the run's is by windows.
    assert float(of_cell["cpu.inc"]) == pytest.approx(readrandom.metrics["cpuPerRead"] - baseline.cpu_per, rel=0.02)
    # Its interval is printed below it, and the categories add up to the CPU of a query.
    low, high = map(float, values["95 % interval"]["qps"].split(".."))
    assert low <= float(of_cell["qps"]) <= high
    owner = out[out.index("Categories, owner view") : out.index("Categories, leaf view")]
    us = [float(m) for m in re.findall(r"^  (?!all).+? +[\d.]+ +[\d.]+\.\.[\d.]+ +([\d.]+)", owner, re.MULTILINE)]
    assert len(us) == 11
    assert sum(us) == pytest.approx(readrandom.metrics["cpuPer"], abs=0.05)


def value_rows(out: str) -> dict[str, dict[str, str]]:
    """The table of the cells, which is the first; the ends of the first cell by what they are called."""
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["cell", "qps"])
    plain = [re.sub(r"(?<=\d),(?=\d)", "", line.strip()) for line in lines[start : start + 3]]
    heads, *rows = [re.split(r"  +", line) for line in plain]
    return {row[0]: dict(zip(heads[1:], row[1:], strict=False)) for row in rows}


def test_an_interrupted_cell_is_measured_again_and_what_was_done_stays(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = tmp_path / "smaller.toml"
    own.write_text(_SMALL, encoding="utf-8")
    words: list[str | Path] = ["experiment", own, "--scale=smoke", "--num-keys=400000", "--duration=8", "--users=1"]
    words += ["--callgraph=fp", "--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    interrupted = ioflame.start(*words)
    wait_for(interrupted, "warm-up: until")
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=120)
    (directory,) = (tmp_path / "out").iterdir()
    assert interrupted.returncode == 130 and f"--resume {directory}" in err, err
    assert ioflame.left_behind() == []
    record = CellsRun.open(directory).record
    assert [run.status for run in record.runs] == ["done", "todo"]
    (unfinished,) = [d for d in directory.iterdir() if d.is_dir()]
    assert open_run(unfinished).record.missing  # kept, and it says what it lacks

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code in (0, 1), err + out
    after = CellsRun.open(directory).record
    assert after.runs[0] == record.runs[0]
    assert after.runs[1].runs["readrandom"] != unfinished.name
    measured = open_run(directory / after.runs[1].runs["readrandom"]).record
    assert measured.missing == []
    assert_explained(measured, *words[1:])
    the_tables_are_those_of_the_runs(out, after.runs[1], measured)
    table = [line.split("\t") for line in (directory / "report.tsv").read_text().splitlines()]
    assert table[0] == list(HEADER) and {len(line) for line in table} == {len(HEADER)}
    assert [line[HEADER.index("test")] for line in table[1:]] == ["load.t1", "readrandom.t1"]
    assert table[1][HEADER.index("w_amp")] == "1.0"  # keys in order are written once
    assert after.runs[0].figures["load.sum_gb"] == pytest.approx(400_000 * 420 / 2**30, rel=0.1)
    # The proofs are the analysis's: made again from what the run recorded.
    step = directory / after.runs[1].runs["readrandom"]
    code, _, err = asked(capsys, "analyse", step)
    assert code in (0, 1) and open_run(step).record.checks == measured.checks, err
    for other, says in (
        ("--users=2", "runs of readrandom, 1 user: 1 then, not given now"),
        ("--duration=4", "was begun with something else: duration: 8 then, 4 now"),
        ("--freq=99", "was begun with something else: frequency: 999 then, 99 now"),
    ):
        assert says in refused(capsys, *words, other, "--resume", directory)
