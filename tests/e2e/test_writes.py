"""A profile of a workload that writes, with its write path: its window, its part of the page, what `show` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.run import open_run
from ground.results.write_ladder import read_write_ladder
from tests.conftest import Ioflame

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]


def test_a_profile_says_where_the_time_of_a_write_goes(ioflame: Ioflame, tmp_path: Path) -> None:
    words: list[str | Path] = [
        "--workload=overwrite", "--scale=smoke", "--num-keys=200000", "--duration=2", "--threads=2", "--callgraph=fp",
        "--collect=perf writes", "--db-dir", tmp_path / "db", "--out", tmp_path / "runs",
    ]  # fmt: skip
    code, out, err = ioflame.run("profile", *words)
    assert code == 0, err + out
    directory = (tmp_path / "runs" / "latest").resolve()
    record = open_run(directory).record
    assert not record.unobserved
    checks = [check for check in record.checks if check.name.startswith("writes")]
    assert checks and not [check for check in checks if check.verdict is Verdict.FAILED]
    ladder = read_write_ladder(directory / Files.WRITES)
    (window,) = [window for window in record.windows if window.kind == "writes"]
    # A write is a query; those under way at the edges are seen by one side alone.
    assert window.counters.queries is not None
    assert ladder.finished == pytest.approx(window.counters.queries, rel=0.05)
    assert sum(one.sum_ns for role in ladder.roles for one in role.stages) == ladder.total_ns
    assert "Write path" in (directory / Files.REPORT).read_text()
    code, out, err = ioflame.run("show", directory, "writepath")
    assert code == 0 and "a write takes" in out, err + out
    # The view of the CPU profile of that name is still there.
    code, out, err = ioflame.run("show", directory, "writes")
    assert code == 0 and "memtable insert" in out, err + out
