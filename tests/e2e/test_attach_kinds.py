"""A target that does several kinds of operation: each has a count, and a table of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.operations import read_operations
from ground.results.profile import read_profile
from ground.results.run import Run, open_run
from tests.conftest import Ioflame
from tests.e2e.test_attach import service
from tests.until import until
from viz.flame.stacks import stacks_of
from viz.flame.tree import FrameTree

_FLAGS = ["--num=100000", "--value_size=100", "--compression_type=none", "--disable_wal=1", "--duration=600",
          "--report_interval_seconds=1", "--report_file="]  # fmt: skip


@dataclass(frozen=True)
class Both:
    """A run that watched a process that reads and one that writes, and their pids."""

    reader: int
    writer: int
    run: Run
    out: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    place = tmp_path_factory.mktemp("kinds")
    fill = ["db_bench", "--benchmarks=fillseq", f"--db={place}/get", *_FLAGS[:-2]]
    subprocess.run(fill, check=True, capture_output=True)
    reads = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", f"--db={place}/get", *_FLAGS]
    writes = ["db_bench", "--benchmarks=overwrite", f"--db={place}/write", *_FLAGS]
    reads[-1], writes[-1] = f"--report_file={place}/get.csv", f"--report_file={place}/write.csv"
    quiet = {"stderr": subprocess.DEVNULL}
    with service(reads, **quiet) as reader, service(writes, **quiet) as writer:
        words = [f"--pid={reader.pid}", f"--pid={writer.pid}", "--seconds=8", "--collect=perf", "--freq=499", "-v"]
        for kind in ("get", "write"):
            report = place / f"{kind}.csv"
            until(
                lambda report=report: report.exists() and report.read_text(encoding="ascii").count("\n") >= 3,  # type: ignore[misc]
                as_long_as=lambda: reader.poll() is None and writer.poll() is None,
            )
            words += ["--count-of", kind, f"awk -F, 'NR > 1 {{ n += $2 }} END {{ print n }}' {report}"]
        code, out, err = Ioflame().run("attach", *words, "--out", place / "runs")
        assert code in (0, 1), err  # 1 where the host was too busy for a check
    yield Both(reader.pid, writer.pid, open_run((place / "runs" / "latest").resolve()), out)


pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


def test_stacks_tell_the_kind_that_each_process_is_known_to_do(both: Both) -> None:
    profile = read_profile(both.run.path(Files.PROFILE))
    weights: dict[tuple[int | None, str], int] = {}
    pid_of = dict(zip(profile.threads.tid, profile.threads.pid, strict=True))
    for stack in profile.each_stack("operations"):
        key = (pid_of[stack.tid], stack.category)
        weights[key] = weights.get(key, 0) + stack.weight
    every = {pid: sum(own for (whose, _), own in weights.items() if whose == pid) for pid in (both.reader, both.writer)}
    assert weights[both.reader, "get"] > 0.6 * every[both.reader]
    # Beside it, its process flushes and compacts, as much as the disk and the other CPU allow.
    background = sum(weights.get((both.writer, kind), 0) for kind in ("flush", "compaction"))
    assert weights[both.writer, "write"] > 0.6 * (every[both.writer] - background)
    assert not {(both.writer, "get"), (both.reader, "write"), (both.reader, "compaction")} & weights.keys()


def test_each_kind_is_divided_by_its_own_count(both: Both) -> None:
    record = both.run.record
    plain = [window.counters for window in record.windows if window.kind == "plain"]
    cpu_us = sum(counters.cpu_ns for counters in plain) / 1e3
    kinds = {one.name: one for one in read_operations(both.run.directory)}
    for name in ("get", "write"):
        one, number = kinds[name], sum(counters.operations[name] for counters in plain)
        assert one.us == pytest.approx(one.share / 100 * cpu_us / number)
        assert one.categories is not None and one.categories.view == "owner"
        assert one.categories.rows[-1].share < 50  # in `other`
        assert sum(row.us_per_query or 0.0 for row in one.categories.rows) == pytest.approx(one.us)
        assert f"Where the CPU of one {name} goes" in both.out
        assert f"CPU by one {name}" in both.run.path(Files.REPORT).read_text(encoding="utf-8")
    assert sum(one.share for one in kinds.values()) == pytest.approx(100)
    # What nothing counts has no us of one; a query of the run is any of those that are counted.
    assert kinds["flush"].us is None and kinds["flush"].categories is None
    assert [c.queries for c in plain] == [pytest.approx(sum(c.operations.values())) for c in plain]


def test_the_screen_the_page_and_the_kinds_tell_one_share_of_writes(both: Both) -> None:
    rows = {row.name: row for row in read_categories(both.run.directory).rows}
    tree = FrameTree(stacks_of(read_profile(both.run.path(Files.PROFILE)), "owner"), tuple(rows))
    legend = dict(zip(tree.categories, tree.category_weights(), strict=True))
    assert legend == {name: row.weight for name, row in rows.items()}
    assert rows["memtable insert"].weight
    kinds = {one.name: one for one in read_operations(both.run.directory)}
    # But for page faults and copies whose callers were lost, which are no row's of writes.
    written = sum(rows[name].share for name in ("WAL", "memtable insert", "write path"))
    assert 0.9 * kinds["write"].share < written <= kinds["write"].share + 1
    assert "\nWAL " not in both.out and "without weight: " in both.out  # the log is off


def test_a_kind_that_the_rules_do_not_know_is_refused(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(["sleep", "60"]) as process:
        words = ("--pid", str(process.pid), "--count-of", "upsert", "echo 1", "--out", tmp_path)
        code, _, err = ioflame.run("attach", *words)
    assert code == 2 and "recognise no such operation, but flush, compaction, multiget, get" in err
