"""A whole experiment, small: killed in the middle, resumed, and its tables recomputed from what it left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ioflame.experiment import ExperimentRun
from ioflame.run import open_run
from tests.conftest import Ioflame
from tests.e2e.test_faults import wait_for
from viz.report_tsv import HEADER

pytestmark = pytest.mark.needs("perf", "db_bench")

OWN = """
about = "small enough for a test"
steps = [
  { prepare = "load" }, { prepare = "overwritesome" }, { prepare = "flush_mt_l0" },
  { baseline = "fio" }, { measure = "readrandom", levels = "several" },
  { prepare = "compact" }, { measure = "readrandom3", levels = "one" },
]
"""


def test_an_experiment_that_is_killed_goes_on_where_it_was(ioflame: Ioflame, tmp_path: Path) -> None:
    own = tmp_path / "small.toml"
    own.write_text(OWN)
    words: list[str | Path] = [
        "experiment",
        own,
        "--scale=smoke",
        "--num-keys=800000",
        "--duration=2",
        "--callgraph=fp",
        "--users=1",
    ]
    words += ["--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
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
    for title in ("fio, random reads", "RocksDB (plain windows", "Models", "owner view, 1 user", "leaf view", "Proofs"):
        assert title in out, title
    assert "FAILED" not in out
    baseline = after.steps[3].baseline
    assert baseline is not None
    row = next(line.split() for line in out.splitlines() if line.split()[:2] == ["readrandom", "1"])
    assert float(row[10]) == pytest.approx(runs["readrandom"].metrics["iops"] / baseline.iops, abs=0.001)
    assert float(row[12]) == pytest.approx(runs["readrandom"].metrics["cpuPerRead"] - baseline.cpu_per, abs=0.01)
    table = [line.split("\t") for line in (directory / "summary.tsv").read_text().splitlines()]
    assert table[0] == list(HEADER)
    assert [line[HEADER.index("test")] for line in table[1:]] == ["readrandom.t1", "readrandom3.t1"]

    code, _, err = ioflame.run(*words[:-4], "--db-dir", tmp_path / "db", "--users=2", "--resume", directory)
    assert code == 2
    assert "was laid out with other steps, users or repeats" in err
