"""A profile with records of single queries: its window, its parts of the page, and what `show` prints of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.ladder import read_ladder
from ground.results.run import open_run
from ground.results.tail import read_tail
from tests.conftest import Ioflame

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]


def test_a_profile_says_where_the_time_of_its_slowest_queries_goes(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    code, out, err = ioflame.run(*short, "--collect=perf", "--tail=1", "--threads=2", "--out", tmp_path)
    assert code == 0, err + out
    directory = (tmp_path / "latest").resolve()
    record = open_run(directory).record
    (window,) = [window for window in record.windows if window.kind == "tail"]
    assert window.seconds == pytest.approx(6, abs=1)
    checks = [check for check in record.checks if check.name.startswith("tail")]
    assert checks and not [check for check in checks if check.verdict is Verdict.FAILED]
    tail = read_tail(directory / Files.TAIL)
    assert sum(row.tail_us for row in tail.rows) == pytest.approx(tail.tail.mean_us, abs=0.01)
    # Each query of the window is counted; those under way at its edges are seen by one side alone.
    assert window.counters.queries is not None
    assert tail.queries == pytest.approx(window.counters.queries, rel=0.05)
    assert "Slow queries" in (directory / Files.REPORT).read_text()
    for part, words in (("tail", "the slowest "), ("worst", "longest queries (us from each one's begin)")):
        code, out, err = ioflame.run("show", directory, part)
        assert code == 0 and words in out, err + out
    assert json.loads((directory / Files.TAIL_TRACE).read_text())["traceEvents"]


def test_a_workload_of_multigets_is_followed_by_its_own_kind(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    words = ("--workload=multireadrandom", "--collect=perf,ladder", "--tail=1", "--out", tmp_path)
    code, out, err = ioflame.run(*short, *words)
    assert code == 0, err + out
    directory = (tmp_path / "latest").resolve()
    ladder, tail = read_ladder(directory / Files.LADDER), read_tail(directory / Files.TAIL)
    assert ladder.kind == tail.kind == "multiget"
    whole, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and sum(part.sum_ns for part in parts.parts) == whole.sum_ns
    # Its client counts keys, and the ladder MultiGets: the one is not set against the other.
    checks = [check for check in open_run(directory).record.checks if check.name.startswith(("ladder", "tail"))]
    assert checks and not [check for check in checks if check.verdict is Verdict.FAILED]
    page = (directory / Files.REPORT).read_text()
    assert "Parts of a query (several)" in page and "How long MultiGets of several reads take" in page
    code, out, err = ioflame.run("show", directory, "ladder")
    assert code == 0 and "Latency ladder of MultiGets" in out, err + out
