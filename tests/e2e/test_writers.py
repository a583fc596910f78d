"""Workloads that write, and experiments of cells, on the real engine: small ones, each with what it has to prove."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from ground.results.cells import CellsRun
from ground.results.files import Files
from tests.conftest import Ioflame
from tests.e2e.commands import db_bench_of, measured, wait_for
from tests.e2e.explained import assert_explained
from tests.recorded_run import assert_reported

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

KEYS = "60000"


@pytest.mark.needs("memory_group")
def test_a_writer_beside_readers_is_a_row_of_its_own(tmp_path: Path) -> None:
    words: list[str | Path] = [
        "--workload=readwhilewriting", "--scale=smoke", "--num-keys=200000", "--duration=2", "--threads=2",
        "--callgraph=fp", "--collect=perf ladder", "--config=iobuf", "--memory-limit=256M", "--db-dir", tmp_path / "db",
    ]  # fmt: skip
    done = measured(tmp_path / "runs", "profile", *words)
    record, checks = done.record, done.checks
    assert_explained(record, *words)
    assert {"readers' operations", "the writer's thread", "debt"} <= checks.keys()
    assert checks["keys found"].verdict.value == "ok", checks["keys found"]
    assert_reported(record)
    assert [lost.kind for lost in record.unobserved] == ["ladder"]
    assert (len(record.roles["reader"]), len(record.roles["writer"])) == (2, 1)
    # Its page cache was bounded, and larger than this small database, which is said.
    assert record.database.memory_limit == 256 << 20
    assert "buffered reads within 256 MiB" in checks["page cache"].value
    assert checks["page cache"].verdict.value == "warn"
    # N readers and a writer take N + 1 seeds.
    assert [seeds.threads for seeds in record.seeds if seeds.step == "readwhilewriting"] == [3]
    plain = [window.counters for window in record.windows if window.kind == "plain" and window.counters.queries]
    cpu = {role: sum(counters.roles[role].cpu_ns for counters in plain) for role in plain[0].roles}
    queries = sum(counters.queries or 0 for counters in plain)
    assert record.metrics["cpuPer"] == pytest.approx(cpu["reader"] / 1e3 / queries)
    assert cpu["reader"] + cpu["writer"] <= sum(counters.cpu_ns for counters in plain)
    for counters in plain:
        assert counters.host is not None and counters.storage_writes >= 0
        times = counters.host
        assert times.user + times.system + times.idle + times.iowait + times.steal > 0
    summary = done.run.path(Files.SUMMARY).read_text()
    parts = summary[summary.index("What writers, flushes") :]
    inserted = re.search(r"^  memtable insert +([\d.]+)", parts, re.MULTILINE)
    assert inserted is not None and float(inserted[1]) > 0
    # The manifest of the database says that writers have changed it since it was loaded.
    assert "readwhilewriting" in (tmp_path / "db" / "ioflame-db.json").read_text()


def test_a_cell_that_fails_leaves_the_others_and_is_measured_when_it_goes_on(ioflame: Ioflame, tmp_path: Path) -> None:
    words: list[str | Path] = ["experiment", "trivial-move", "--scale=smoke", f"--num-keys={KEYS}"]
    words += ["--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    first = ioflame.start(*words)
    wait_for(first, "run 2 of 7", "load 60,000 keys")
    # Its client is killed in the middle of the cell: the cell fails, the others still run.
    os.kill(db_bench_of(first, f"--db={tmp_path}/db/asc.2"), signal.SIGKILL)
    _, err = first.communicate(timeout=600)
    assert first.returncode == 1, err
    (directory,) = (tmp_path / "out").iterdir()
    before = CellsRun.open(directory).record
    assert [run.status for run in before.runs] == ["done", "failed", *["done"] * 5]
    assert "SIGKILL" in before.runs[1].why

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0, err + out
    after = CellsRun.open(directory).record
    assert [run.status for run in after.runs] == ["done"] * 7
    assert [*after.runs[:1], *after.runs[2:]] == [*before.runs[:1], *before.runs[2:]]
    assert "passed: two streams, more write amplification than one" in out
    assert "passed: rows in = rows out" in out
    assert "  failed: " not in out
    table = [line.split("\t") for line in (directory / "summary.tsv").read_text().splitlines()]
    assert [line[0] for line in table][:5] == ["cell", "asc.1", "asc.2", "asc.8", "asc.64"]
    w_amp = table[0].index("w_amp")
    assert 1.0 <= float(table[1][w_amp]) < 1.2 < float(table[2][w_amp])
    assert not list((tmp_path / "db").rglob("*.sst"))  # nothing is left of the cells' databases
