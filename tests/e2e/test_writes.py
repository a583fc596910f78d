"""A profile of a workload that writes, with its write path: its window, its part of the page, what `show` prints."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.run import open_run
from ground.results.write_ladder import read_write_ladder
from tests.conftest import Ioflame
from workloads.registry import engine_named

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]


def test_a_profile_says_where_the_time_of_a_write_goes(ioflame: Ioflame, tmp_path: Path) -> None:
    words: list[str | Path] = [
        "--workload=overwrite", "--scale=smoke", "--num-keys=200000", "--duration=4", "--threads=2", "--callgraph=fp",
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
    # A write is a query. The report counts them by the second, and of a second in which the window begins or ends it
    # does not say how many were inside: there are fewer while they are watched.
    report = (directory / "db_bench.report.csv").read_text(encoding="utf-8")
    rates, begun = engine_named("rocksdb").parse_report(report), record.report_start_ns
    assert begun is not None
    first, last = ((moment - begun) / 1e9 for moment in (window.start_ns, window.end_ns))
    whole, touched = rates[math.ceil(first) : math.floor(last)], rates[math.floor(first) : math.ceil(last)]
    assert len(whole) >= 3 and sum(whole) < ladder.finished < sum(touched)
    assert sum(one.sum_ns for role in ladder.roles for one in role.stages) == ladder.total_ns
    assert "Write path" in (directory / Files.REPORT).read_text()
    code, out, err = ioflame.run("show", directory, "writepath")
    assert code == 0 and "a write takes" in out, err + out
    # The view of the CPU profile of that name is still there.
    code, out, err = ioflame.run("show", directory, "writes")
    assert code == 0 and "memtable insert" in out, err + out
