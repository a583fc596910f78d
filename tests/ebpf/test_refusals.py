"""Requests for one program that make no sense: what is wrong is named, and nothing is measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_observer
from ground.errors import EXIT_HOST, EXIT_USAGE, UsageError
from ground.system.process import Children
from tests.ioflame.asked import asked


@pytest.mark.needs("co-re")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pid", "999999999"], "there is no process 999999999"),
        (["--pid", "1", "--device", "/nowhere"], "lsblk"),
        (["--pid", "1", "--device", "/proc"], "no block device"),
        (["--pid", "1", "--seconds", "0"], "--seconds"),
        (["--pid", "1", "--backend", "python-bcc"], "garbage"),
    ],
)
def test_what_makes_no_sense(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, _, err = asked(capsys, "ebpf", "iolat", *arguments)
    assert code in (EXIT_USAGE, EXIT_HOST) and words in err


@pytest.mark.needs("co-re")
@pytest.mark.parametrize(
    "command", ["ebpf iolat", "ebpf ladder", "ebpf offcpu", "ebpf runqlat", "ebpf tail", "ebpf whose", "pmp"]
)
def test_a_process_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in ("99999999999", str(gone.pid)):
        out = [f"--out={tmp_path / 'runs'}"] if command == "pmp" else []
        code, _, said = asked(capsys, *command.split(), f"--pid={pid}", *out)
        assert code == EXIT_USAGE and f"there is no process {pid}" in said
        # Nothing that is gone by the time it is read.
        assert ".log" not in said


def test_a_sample_of_nothing_is_refused(tmp_path: Path) -> None:
    with Children() as children, pytest.raises(UsageError, match="LADDER_SAMPLE=0"):
        ladder_observer(LadderRequest(1, 0), children, tmp_path / "ladder.json")
