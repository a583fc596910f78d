"""Clients that are no db_bench, under `ioflame run`: us per query by what they print, or by the calls of a function."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ground.results.cells import CellsRun
from ground.results.record import RunRecord
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.test_services import POSTGRESQL, as_user, done, home, server
from tests.pgbench import assert_counted, ends_of_transactions, logging_to
from tests.places import ROOT

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.needs("perf")]

_OPTIONS = ("--seconds=8", "--collect=perf", "--warm-up=1")


def watched(place: Path, *words: str, options: tuple[str, ...] = ()) -> tuple[int, str, str, RunRecord]:
    code, out, err = Ioflame().run("run", "--out", place / "runs", *_OPTIONS, *options, "--", *words)
    latest = place / "runs" / "latest"
    assert latest.exists(), err
    return code, out, err, open_run(latest.resolve()).record


def rates(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text, re.MULTILINE)]


@dataclass(frozen=True)
class Postgres:
    """pid: of its postmaster; client: a command line of pgbench's"""

    pid: int
    client: list[str]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with home(tmp_path_factory, "postgres") as place:
        user, data = as_user("postgres"), place / "data"
        done([*user, str(POSTGRESQL / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"])
        argv = [*user, str(POSTGRESQL / "postgres"), "-D", str(data), "-k", str(place), "-c", "listen_addresses="]
        connected = ["-h", str(place), "-U", "postgres"]
        with server(argv, place / "log", [str(POSTGRESQL / "pg_isready"), "-q", *connected]) as pid:
            pgbench = [str(POSTGRESQL / "pgbench"), *connected]
            done([*pgbench, "-i", "-q", "-s", "2", "postgres"])
            yield Postgres(pid, [*pgbench, "-n", "-S", "-c", "2", "-T", "20", "postgres"])


@pytest.mark.needs("postgresql")
def test_pgbench_has_us_a_transaction_with_nothing_to_guess(postgres: Postgres, tmp_path: Path) -> None:
    code, _, err, record = watched(tmp_path, *postgres.client, *logging_to(tmp_path))
    assert code in (0, 1), err
    assert "added to the command: --progress=1" in err and "--server PID watches PostgreSQL instead" in err
    printed = rates(err, r"^progress: [\d.]+ s, ([\d.]+) tps")
    assert len(printed) >= 12, "its progress has passed"
    assert min(printed) <= record.metrics["qps"] <= max(printed)
    # Between two lines of its progress the rate is taken to be even: off by less than a second.
    assert_counted(record.windows, ends_of_transactions(tmp_path), late=1.1, early=1.1)
    assert record.metrics["rx.lat"] == pytest.approx(2 * 1e6 / record.metrics["qps"], rel=1e-6), "of two connections"
    assert record.metrics["cpuPer"] * record.metrics["qps"] == pytest.approx(record.metrics["cores"] * 1e6, rel=1e-6)


@pytest.mark.needs("postgresql")
def test_its_server_is_watched_instead_where_it_is_named(postgres: Postgres, tmp_path: Path) -> None:
    options = (f"--server={postgres.pid}",)
    code, _, err, record = watched(tmp_path, *postgres.client, *logging_to(tmp_path), options=options)
    assert code in (0, 1), err
    assert record.engine == "postgresql" and record.target is not None and postgres.pid in record.target.pids
    assert "client backends" in record.target.groups
    assert_counted(record.windows, ends_of_transactions(tmp_path), late=1.1)
    assert Path(f"/proc/{postgres.pid}").exists(), "the server lives on"


@pytest.mark.needs("sysbench")
def test_sysbench_prints_each_line_at_once_and_is_counted(tmp_path: Path) -> None:
    code, out, err, record = watched(tmp_path, "sysbench", "cpu", "--time=20", "run")
    assert code in (0, 1), err
    assert "added to the command: stdbuf -oL (before the program) and --report-interval=1" in err
    printed = rates(out, r"^\[ \d+s \] thds: 1 eps: ([\d.]+)")
    assert len(printed) >= 12 and "General statistics:" in out
    assert min(printed) <= record.metrics["qps"] <= max(printed)


@pytest.mark.needs("sysbench")
def test_untouched_reads_nothing_and_says_what_is_lost(tmp_path: Path) -> None:
    code, out, err, record = watched(tmp_path, "sysbench", "cpu", "--time=20", "run", options=("--untouched",))
    assert code in (0, 1), err
    assert "--untouched: without --report-interval=1 it prints no progress" in err and "thds:" not in out
    assert "qps" not in record.metrics and record.metrics["cores"] > 0


@pytest.mark.needs("db_bench", "ldb", "bpftrace")
def test_ldb_is_counted_by_the_keys_that_it_reads(tmp_path: Path) -> None:
    database = tmp_path / "db"
    load = ["db_bench", "--benchmarks=fillseq", f"--db={database}", "--num=4000000", "--value_size=16"]
    subprocess.run(load, capture_output=True, check=True)
    scan = ["bash", "-c", 'exec "$0" "$@" >/dev/null', "ldb", f"--db={database}", "--hex", "scan"]
    code, out, err, record = watched(tmp_path, *scan, options=("--client=ldb",))
    assert (out, code) == ("", code) and code in (0, 1), err
    assert record.target is not None and "calls of rocksdb::DBIter::Next" in record.target.count
    assert record.metrics["qps"] > 1000


@pytest.mark.needs("db_bench")
def test_a_script_calls_ioflame_where_it_has_a_place_for_perf(tmp_path: Path) -> None:
    """The line of the documentation, word for word."""
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (hook,) = re.findall(r'^if \[ -n "\$IOFLAME_PERF" \].*$', text, re.MULTILINE)
    bench, report = ["db_bench", f"--db={tmp_path}/db", "--num=400000"], ["--report_interval_seconds=1"]
    load = shlex.join([*bench, "--benchmarks=fillseq"])
    report += ["--report_file=own.csv", "--use_existing_db", "--duration=25"]
    read = shlex.join([*bench, "--benchmarks=readrandom", *report])
    script = f"{load} >load.log 2>&1\n{read} >read.log 2>&1 & pid=$!\n"
    script += f'until [ -e own.csv ] && [ "$(wc -l <own.csv)" -ge 3 ]; do :; done\n{hook}\nwait $pid; echo ended $?\n'
    attach = shlex.join([sys.executable, "-m", "ioflame.cli", "attach", "--seconds=8", "--collect=perf", "--out=runs"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IOFLAME_PERF": attach}
    found = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                           timeout=200, check=False)  # fmt: skip
    assert found.stdout == "ended 0\n", found.stderr
    record = open_run((tmp_path / "runs" / "latest").resolve()).record
    assert record.workload == "readrandom" and record.metrics["qps"] > 0


@pytest.mark.needs("sysbench", "db_bench")
def test_a_command_is_a_cell_of_an_experiment(ioflame: Ioflame, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    cells = [
        f'[[cells]]\nname = "{threads}"\ncommand = "sysbench cpu --threads={threads} --time=16 run"'
        for threads in (1, 2)
    ]
    path.write_text(
        """about = "x"
shows = "x"
cannot = "x"
[layout]
database = "none"
[scale.smoke]
about = "seconds"
duration = 1
[[columns]]
name = "qps"
about = "x"
part = ["command.qps"]
[[columns]]
name = "us"
about = "x"
part = ["last.cpuPer"]
[[holds]]
what = "an event takes some CPU"
proof = "within"
column = "us"
low = 1.0
high = 1e6
"""
        + "\n".join(cells),
        encoding="utf-8",
    )
    words = (str(path), "--scale=smoke", f"--out={tmp_path / 'runs'}", f"--db-dir={tmp_path / 'db'}")
    code, out, err = ioflame.run("explain", *words[:2])
    assert code == 0 and "sysbench" in out and "--threads=2" in out, err
    code, out, err = ioflame.run("experiment", *words)
    assert code in (0, 1) and "thds:" not in out + err, err
    (directory,) = (one.parent for one in (tmp_path / "runs").glob("*/cells.json"))
    record = CellsRun.open(directory).record
    assert [run.status for run in record.runs] == ["done", "done"], err
    for run in record.runs:
        printed = rates((directory / f"{run.cell}-1-command.log").read_text(encoding="utf-8"), r"eps: ([\d.]+)")
        assert min(printed) <= run.figures["command.qps"] <= max(printed)
        assert (directory / run.runs["command"] / "report.html").is_file()
    # The store holds each as itself, and the file is the one that it was begun with.
    code, out, err = ioflame.run("store", "add", tmp_path / "store", directory)
    assert code == 0 and out.count("added:") == 2, out + err
    path.write_text(path.read_text(encoding="utf-8").replace("--threads=2", "--threads=3"), encoding="utf-8")
    code, _, err = ioflame.run("experiment", *words, "--resume", directory)
    assert code == 2 and "begun with other commands, flags or steps of 2" in err, err
