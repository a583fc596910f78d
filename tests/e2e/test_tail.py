"""Profiles with records of single queries and of writes: their windows, their parts of the page, and `show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.ladder import read_ladder
from ground.results.tail import read_tail
from ground.results.write_ladder import read_write_ladder
from tests.e2e.commands import measured, operations_around
from tests.ioflame.asked import asked

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]


def test_multigets_are_followed_by_their_own_kind_and_the_slowest_are_taken_apart(
    capsys: pytest.CaptureFixture[str], short: list[str], tmp_path: Path
) -> None:
    watch = ["--collect=perf,ladder", "--tail=1", "--ladder-sample=1"]
    done = measured(tmp_path, *short, "--workload=multireadrandom", *watch)
    run = done.run
    ladder, tail = read_ladder(run.path(Files.LADDER)), read_tail(run.path(Files.TAIL))
    assert ladder.kind == tail.kind == "multiget" and tail.queries > 0
    whole, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and sum(part.sum_ns for part in parts.parts) == whole.sum_ns
    assert sum(row.tail_us for row in tail.rows) == pytest.approx(tail.tail.mean_us, abs=0.01)
    # Its client counts keys, and the ladder MultiGets: the one is not set against the other.
    assert {"ladder", "tail"} <= {check.name.partition(":")[0].partition(" ")[0] for check in done.record.checks}
    page = run.path(Files.REPORT).read_text()
    for words in ("Parts of a query (several)", "How long MultiGets of several reads take", "Slow queries"):
        assert words in page
    shown = {"tail": "the slowest ", "worst": "longest queries (us from each one's begin)",
             "ladder": "Latency ladder of MultiGets"}  # fmt: skip
    for part, words in shown.items():
        code, out, err = asked(capsys, "show", run.directory, part)
        assert code == 0 and words in out, err + out
    assert json.loads(run.path(Files.TAIL_TRACE).read_text())["traceEvents"]


def test_a_profile_says_where_the_time_of_a_write_goes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = measured(
        tmp_path / "runs", "profile", "--workload=overwrite", "--scale=smoke", "--num-keys=200000", "--duration=4",
        "--threads=2", "--callgraph=fp", "--collect=perf writes", "--db-dir", tmp_path / "db",
    )  # fmt: skip
    run, record = done.run, done.record
    assert not record.unobserved
    assert [check for check in record.checks if check.name.startswith("writes")]
    ladder = read_write_ladder(run.path(Files.WRITES))
    (window,) = [window for window in record.windows if window.kind == "writes"]
    # A write is a query.
    least, most = operations_around(run, window)
    assert least <= ladder.finished <= most
    assert sum(one.sum_ns for role in ladder.roles for one in role.stages) == ladder.total_ns
    assert "Write path" in run.path(Files.REPORT).read_text()
    # The view of the CPU profile of that name is still there.
    for part, words in {"writepath": "a write takes", "writes": "memtable insert"}.items():
        code, out, err = asked(capsys, "show", run.directory, part)
        assert code == 0 and words in out, err + out
