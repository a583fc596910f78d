"""Requests for one program that make no sense: what is wrong is named, and nothing is measured."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from pathlib import Path

import pytest

from ground.errors import EXIT_CHECK_FAILED, EXIT_HOST, EXIT_USAGE
from tests.ioflame.asked import asked
from tests.places import ROOT

_PROGRAMS = ROOT / "target" / "release"


@pytest.mark.needs("co-re")
@pytest.mark.parametrize(
    ("option", "words"),
    [("--device=/nowhere", "lsblk"), ("--device=/proc", "no block device"), ("--backend=python-bcc", "garbage")],
)
def test_what_makes_no_sense(capsys: pytest.CaptureFixture[str], option: str, words: str) -> None:
    code, _, err = asked(capsys, "ebpf", "iolat", "--pid=1", option)
    assert code in (EXIT_USAGE, EXIT_HOST) and words in err


@pytest.mark.needs("co-re")
@pytest.mark.parametrize(
    "command", ["ebpf iolat", "ebpf ladder", "ebpf offcpu", "ebpf runqlat", "ebpf tail", "ebpf requests", "pmp"]
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


@pytest.mark.needs("co-re")
@pytest.mark.parametrize(
    "command",
    ["ioflame-ebpf offcpu --pid 999999999", "ioflame-ebpf needs", "ioflame-client --help", "stackfold /nowhere"],
)
def test_who_can_tell_nobody_ends_with_an_exit_code_all_the_same(command: str) -> None:
    program, *arguments = command.split()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([_PROGRAMS / program, *arguments], check=False, stdout=full, stderr=full)
    assert done.returncode in (1, 2, 3)


@pytest.mark.needs("co-re")
@pytest.mark.parametrize("command", ["ladder --start query", "writes"])
def test_a_mapped_file_is_not_read_whole(tmp_path: Path, command: str) -> None:
    """A target's files are its own choice: this one is an ELF file of 3 GiB, nearly all of it a hole."""
    header = struct.pack("<7s9xHH8x8x8xIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 0, 64, 56, 0, 64, 0, 0)
    with (tmp_path / "large").open("w+b") as file:
        file.write(header)
        file.truncate(3 << 30)
        with mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC):
            target = ["--symbols", "rocksdb", "--pid", str(os.getpid())]
            argv = [str(_PROGRAMS / "ioflame-ebpf"), *command.split(), *target]
            asked = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            assert asked.stderr is not None
            said = asked.stderr.read().decode()
            _, status, used = os.wait4(asked.pid, 0)
            asked.returncode = os.waitstatus_to_exitcode(status)
    assert asked.returncode == EXIT_CHECK_FAILED and "names" in said
    assert used.ru_maxrss < 1 << 20
