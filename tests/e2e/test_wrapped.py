"""A db_bench and a perf behind shell scripts that do not `exec`: the figures are the engine's, and all of it ends."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.pmp import read_pmp
from ground.results.run import open_run
from ground.system.descendants import having_open
from tests.conftest import Ioflame
from tests.e2e.test_faults import held, wait_for

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def wrapper(path: Path, program: str) -> Path:
    """Starts the program as its child, and ends with its exit code."""
    return script(path, f'{shutil.which(program)} "$@"\nexit $?')


def everybody() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


@pytest.fixture
def unlocked(loaded: Path) -> Iterator[None]:
    """Afterwards no process has the database open."""
    yield
    assert having_open(loaded / "LOCK", everybody()) == []


@pytest.mark.usefixtures("unlocked")
def test_what_is_measured_is_the_engine_and_not_its_wrapper(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    wrapper(tmp_path / "bin" / "perf", "perf")
    db_bench = wrapper(tmp_path / "bin" / "db_bench", "db_bench")
    path = ("env", f"PATH={tmp_path}/bin:{os.environ['PATH']}")
    words = [*short, "--db-bench", str(db_bench), "--collect", "perf pmp", "--callgraph", "fp", "--out", str(tmp_path)]
    code, out, err = ioflame.run(*words, prefix=path)
    assert code == 0, err + out
    run = open_run((tmp_path / "latest").resolve())
    record = run.record
    started = {command.name: command for command in record.commands}
    assert record.pid != started["db_bench readrandom"].pid
    assert started["perf record"].argv[0] == f"{tmp_path}/bin/perf"
    assert read_pmp(run.directory).pid == record.pid
    # A shell that waits reads nothing and has next to no CPU: both are the engine's, whose queries read a block each.
    plain = [w.counters for w in record.windows if w.kind == "plain"]
    # Of all windows: between two reports of a second queries are spread evenly, and on a busy host they are not even.
    assert sum(c.process_read_bytes for c in plain) / 8192 > 0.9 * sum(c.queries or 0 for c in plain) > 0
    for counted in plain:
        assert counted.process_read_bytes == pytest.approx(counted.read_calls * 8192, rel=0.05)
    assert record.metrics["cpuPer"] > 5
    assert record.profile is not None and record.profile.report_weight == record.profile.weight > 0
    assert [check for check in record.checks if check.verdict is Verdict.FAILED] == []


@pytest.mark.usefixtures("unlocked")
def test_an_interrupt_ends_the_engine_behind_its_wrapper(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    db_bench = wrapper(tmp_path / "bin" / "db_bench", "db_bench")
    process = ioflame.start(*short, "--db-bench", db_bench, "--out", tmp_path / "runs")
    wait_for(process, "perf window")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert ioflame.left_behind() == []


# What db_bench does with the command line of the workload; the steps before it are left to the real one.
EARLY = {
    "before its first query": "echo 'one line of garbage'; exit 0",
    "s of queries": f'{shutil.which("db_bench")} "$@" --duration=3; echo "one line of garbage"; exit 0',
}


@pytest.mark.parametrize("when", EARLY)
def test_an_engine_that_ends_early_is_blamed_with_its_own_words(
    ioflame: Ioflame, short: list[str], tmp_path: Path, when: str
) -> None:
    real = shutil.which("db_bench")
    fake = script(
        tmp_path / "fake", f'case "$*" in *benchmarks=readrandom,stats*) {EARLY[when]};; esac\nexec {real} "$@"'
    )
    code, _, err = ioflame.run(*short, "--db-bench", fake, "--out", tmp_path / "runs")
    assert code == 1, err
    assert "db_bench readrandom ended " in err and f"{when}, with exit code 0; it was asked for" in err
    assert "one line of garbage" in err
    assert f"to see it again: {fake} " in err
    assert "too busy" not in err


def test_an_engine_that_stands_still_fails_the_run(ioflame: Ioflame, short: list[str], tmp_path: Path) -> None:
    """Stopped in the first window, and let go only to be ended."""
    process = ioflame.start(*short, "--collect", "pmp", "--out", tmp_path)
    wait_for(process, "plain window")
    with held(process):
        (run,) = tmp_path.glob("2*")
        (engine,) = having_open(next(run.glob("*.csv")), everybody())
        os.kill(engine, signal.SIGSTOP)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    checks = {check.name: check for check in open_run(run).record.checks}
    assert checks["queries"].verdict is Verdict.FAILED
    assert "in 3 of 3 windows: plain, pmp, plain" in checks["queries"].value
    assert "the client did not exit by itself" in checks["compaction in the log"].means
    assert "this build prints other statistics" not in out
