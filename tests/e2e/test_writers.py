"""Workloads that write, and experiments of cells, on the real engine: small ones, each with what it has to prove."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from ground.results.cells import CellsRun
from ground.results.files import Files
from ground.results.run import open_run
from ground.system.descendants import descendants
from tests.conftest import Ioflame
from tests.e2e.explained import assert_explained
from tests.e2e.test_faults import wait_for

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

KEYS = "60000"


@pytest.mark.needs("memory_group")
def test_a_writer_beside_readers_is_a_row_of_its_own(ioflame: Ioflame, tmp_path: Path) -> None:
    words: list[str | Path] = [
        "--workload=readwhilewriting", "--scale=smoke", "--num-keys=200000", "--duration=2", "--threads=2",
        "--callgraph=fp", "--collect=perf ladder", "--config=iobuf", "--memory-limit=256M", "--db-dir", tmp_path / "db",
    ]  # fmt: skip
    code, out, err = ioflame.run("profile", *words, "--out", tmp_path / "runs")
    assert code == 0, err + out
    (directory,) = (d for d in (tmp_path / "runs").iterdir() if not d.is_symlink())
    record = open_run(directory).record
    assert_explained(ioflame, record, *words)
    checks = {check.name: check for check in record.checks}
    for name in ("readers' operations", "the writer's thread", "keys found", "folded = perf report", "debt"):
        assert checks[name].verdict.value == "ok", checks[name]
    assert [lost.kind for lost in record.unobserved] == ["ladder"]
    assert (len(record.roles["reader"]), len(record.roles["writer"])) == (2, 1)
    # Its page cache was bounded, and larger than this small database, which is said.
    assert record.database.memory_limit == 256 << 20
    assert "buffered reads within 256 MiB" in checks["page cache"].value
    assert checks["page cache"].verdict.value == "warn"
    # N readers and a writer take N + 1 seeds.
    assert [seeds.threads for seeds in record.seeds if seeds.step == "readwhilewriting"] == [3]
    plain = [window.counters for window in record.windows if window.kind == "plain"]
    cpu = {role: sum(counters.roles[role].cpu_ns for counters in plain) for role in plain[0].roles}
    queries = sum(counters.queries or 0 for counters in plain)
    assert record.metrics["cpuPer"] == pytest.approx(cpu["reader"] / 1e3 / queries)
    assert cpu["reader"] + cpu["writer"] <= sum(counters.cpu_ns for counters in plain)
    for counters in plain:
        assert counters.host is not None and counters.storage_writes >= 0
        times = counters.host
        ticks = times.user + times.system + times.idle + times.iowait + times.steal
        assert ticks > 0
    summary = (directory / Files.SUMMARY).read_text()
    parts = summary[summary.index("What writers, flushes") :]
    inserted = re.search(r"^  memtable insert +([\d.]+)", parts, re.MULTILINE)
    assert inserted is not None and float(inserted[1]) > 5
    # The manifest of the database says that writers have changed it since it was loaded.
    assert "readwhilewriting" in (tmp_path / "db" / "ioflame-db.json").read_text()


def test_cells_that_were_interrupted_go_on_and_one_that_fails_leaves_the_others(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    words: list[str | Path] = ["experiment", "trivial-move", "--scale=smoke", f"--num-keys={KEYS}"]
    words += ["--db-dir", tmp_path / "db", "--out", tmp_path / "out"]
    first = ioflame.start(*words)
    wait_for(first, "run 2 of 7")
    wait_for(first, "load 60,000 keys")
    # Its client is killed in the middle of the cell: the cell fails, the others still run.
    os.kill(_client_of(first, tmp_path / "db" / "asc.2"), signal.SIGKILL)
    wait_for(first, "run 3 of 7")
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 130, err
    (directory,) = (tmp_path / "out").iterdir()
    before = CellsRun.open(directory).record
    assert [run.status for run in before.runs][:2] == ["done", "failed"]
    assert "SIGKILL" in before.runs[1].why

    code, out, err = ioflame.run(*words, "--resume", directory)
    assert code == 0, err + out
    after = CellsRun.open(directory).record
    assert [run.status for run in after.runs] == ["done"] * 7
    assert after.runs[0] == before.runs[0]
    assert "passed: one stream is written once" in out
    assert "passed: two streams, more write amplification than one" in out
    assert "passed: rows in = rows out" in out
    assert "  failed: " not in out
    table = [line.split("\t") for line in (directory / "summary.tsv").read_text().splitlines()]
    assert [line[0] for line in table][:5] == ["cell", "asc.1", "asc.2", "asc.8", "asc.64"]
    w_amp = table[0].index("w_amp")
    assert float(table[1][w_amp]) == 1.0 < float(table[2][w_amp])
    assert not list((tmp_path / "db").rglob("*.sst"))  # nothing is left of the cells' databases

    code, _, err = ioflame.run(*words, "--num-keys=70000", "--resume", directory)
    assert code == 2
    assert "was laid out with other cells, repeats or keys" in err


def _client_of(process: subprocess.Popen[str], db_dir: Path) -> int:
    """The client that fills this database, as soon as it runs."""
    while process.poll() is None:
        for pid in descendants([process.pid]):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if f"--db={db_dir}".encode() in words and words[0].endswith(b"db_bench"):
                    return pid
    pytest.fail("it ended without a client")


def test_a_client_without_a_flag_of_a_row_is_refused_before_anything_is_made(ioflame: Ioflame, tmp_path: Path) -> None:
    older = tmp_path / "older_bench"
    older.write_text(
        '#!/bin/sh\nif [ "$1" = --help ]; then db_bench --help | grep -v prefix_size; else exec db_bench "$@"; fi\n'
    )
    older.chmod(0o755)
    code, out, err = ioflame.run(
        "experiment", "trivial-move", "--scale=smoke", "--db-bench", older, "--db-dir", tmp_path / "db",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert (code, out) == (2, ""), err
    assert "does not know --prefix_size of step load" in err
    assert not (tmp_path / "db").exists()


def test_a_cell_that_would_fill_the_disk_is_refused(ioflame: Ioflame, tmp_path: Path) -> None:
    code, _, err = ioflame.run(
        "experiment", "trivial-move", "--num-keys=100G", "--db-dir", tmp_path / "db", "--out", tmp_path / "out"
    )
    assert code == 3, err
    assert re.search(r"a cell needs [\d.]+ TiB of disk", err)
    assert "NUM_KEYS" in err
    assert not list(tmp_path.rglob("*.sst"))
