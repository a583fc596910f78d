"""A client that prints its queries: how it is recognised, what is added to it, and that its output stays its own."""

from __future__ import annotations

import math
import os
import pty
import time
from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.results.command_run import CommandRun
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.own_command.added_words import added_words, command_line
from ioflame.measure.own_command.clients import Clients
from ioflame.measure.own_command.command_words import StartedCommand, checked_command
from ioflame.measure.own_command.printed_lines import PrintedLines
from tests.until import until
from workloads.counted_clients import read_client


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that are called as clients are."""
    for name in ("pgbench", "sysbench", "ycsb", "mine.sh"):
        (tmp_path / name).write_bytes(b"\x7fELF" if name in ("pgbench", "sysbench") else b"#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def added(command: StartedCommand, place: Path, *, untouched: bool = False, counted: bool = False) -> list[str]:
    home = CommandRun.create(place / "runs", command.program, "0", list(command.argv))
    words, report = added_words(command, home, Reporter(), untouched=untouched, counted=counted)
    assert report is None
    return command_line(command, words, read=not (untouched or counted))


def test_a_client_is_known_behind_what_starts_it(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = checked_command(["--", "nice", "-n", "1", "sysbench", "cpu", "run"])
    assert command.client == read_client("sysbench")
    words = ["nice", "-n", "1", "stdbuf", "-oL", "sysbench", "cpu", "run", "--report-interval=1"]
    assert added(command, programs) == words
    said = "added to the command: stdbuf -oL (before the program) and --report-interval=1   (--untouched adds nothing)"
    assert said in capsys.readouterr().err
    assert added(command, programs, untouched=True) == list(command.argv)
    assert "--untouched: without --report-interval=1 it prints no progress, so its" in capsys.readouterr().err
    assert added(command, programs, counted=True) == list(command.argv) and not capsys.readouterr().err
    assert checked_command(["pgbench", "-i"]).client is None


def test_a_script_is_a_client_by_its_own_name_and_gets_options_only_then(programs: Path) -> None:
    ycsb = checked_command(["sh", "./ycsb", "run", "basic"])
    assert ycsb.client == read_client("ycsb") and ycsb.script and ycsb.takes
    assert added(ycsb, programs)[-3:] == ["-s", "-p", "status.interval=1"]
    mine = checked_command(["./mine.sh", "run"], "sysbench")
    assert mine.client == read_client("sysbench") and not mine.takes
    assert added(mine, programs) == ["./mine.sh", "run"]
    assert checked_command(["sh", "mine.sh", "pgbench"]).client is None
    with pytest.raises(UsageError, match="does not say how the queries of this command are counted"):
        checked_command(["./mine.sh", "prepare"], "sysbench")


def test_lines_are_counted_while_they_pass(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A client that prints two counted lines, and ends once the test writes to its FIFO."""
    os.mkfifo(tmp_path / "end")
    script = (
        "echo result; echo 'progress: 1.0 s, 100.0 tps, x' >&2; echo 'progress: 2.0 s, 100.0 tps, x' >&2; "
        f"cat {tmp_path}/end; echo 'not a line' >&2; exit 4"
    )
    command = checked_command(["bash", "-c", script], "pgbench")
    assert command.client is not None
    with Children() as children:
        lines = PrintedLines(command.client, command, Reporter())
        child = children.start("client", list(command.argv), inherits=True, instead=lines.instead)
        lines.start()
        clients = Clients(child, command, whole=True)
        process = clients.next()
        assert process is not None and process.pid == child.pid
        assert lines.counts(process) and lines.left() == math.inf
        until(lambda: lines.count.count.read() > 0)
        (tmp_path / "end").open("w").close()
        assert clients.next() is None and child.stop() == 4
        assert not lines.counts(process) or lines.count.begun_ns is not None
        lines.finish()
    out, err = capfd.readouterr()
    assert out == "result\n"
    assert err == "progress: 1.0 s, 100.0 tps, x\nprogress: 2.0 s, 100.0 tps, x\nnot a line\n"


def test_that_it_writes_to_no_terminal_any_more_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    command, client = checked_command(["true", "-T", "60", "-c", "4"], "pgbench"), read_client("pgbench")
    PrintedLines(client, command, Reporter()).finish()
    assert "terminal" not in capfd.readouterr().err
    terminal, ours = pty.openpty()
    before = os.dup(2)
    os.dup2(ours, 2)
    try:
        lines = PrintedLines(client, command, Reporter())
    finally:
        os.dup2(before, 2)
        os.close(before)
    lines.finish()
    assert "which hands on each byte" in capfd.readouterr().err
    os.close(terminal)
    os.close(ours)
    assert "printed no line that matches ^progress" in lines.without_count
    lines.count.seen("progress: 10.0 s, 5.0 tps, lat", time.monotonic_ns())
    assert 0 < lines.left() <= 50 and lines.queries_at_once == 4
