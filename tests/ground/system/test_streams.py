"""Output that passes byte for byte with its lines seen on the way, and a terminal that is lent and given back."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

from ground.system.foreground import Foreground
from ground.system.passed_stream import PassedStream
from tests.places import ROOT

# Bytes that are no text, lines of all ends, an end without one, and more than a pipe holds.
_BYTES = b"one\ntwo\rthree\r\n\xff\xfe\0garbage\n" + b"x" * 300_000 + b"\nlast"


def passed(written: bytes, place: Path) -> tuple[bytes, list[str]]:
    """What reached us of a command that writes this, and the lines that were seen."""
    lines: list[str] = []
    source, out = place / "source", place / "out"
    source.write_bytes(written)
    with out.open("wb") as file:
        stream = PassedStream(file.fileno(), lambda line, _: lines.append(line))
        with subprocess.Popen(["cat", str(source)], stdout=stream.given):
            stream.start()
        stream.finish(60)
    return out.read_bytes(), lines


def test_bytes_stay_what_they_are_and_lines_end_as_progress_does(tmp_path: Path) -> None:
    out, lines = passed(_BYTES, tmp_path)
    assert out == _BYTES
    assert lines[:3] == ["one", "two", "three"] and lines[3].endswith("garbage")
    assert set(lines[4]) == {"x"} and len(lines) == 5, "what has no end is no line, and no line is kept whole"


def test_a_line_in_pieces_is_seen_once_it_is_whole() -> None:
    lines: list[str] = []
    seen = threading.Event()
    source, sink = os.pipe()

    def see(line: str, _: int) -> None:
        lines.append(line)
        seen.set()

    stream = PassedStream(sink, see)
    held = os.dup(stream.given)
    stream.start()
    os.write(held, b"rate")
    assert os.read(source, 10) == b"rate" and lines == []
    os.write(held, b" 5\n")
    assert seen.wait(60) and lines == ["rate 5"]
    os.close(held)
    stream.finish(60)
    os.close(source)
    os.close(sink)


def test_a_command_whose_output_nobody_reads_any_more_is_told_so() -> None:
    source, sink = os.pipe()
    os.close(source)
    stream = PassedStream(sink, lambda *_: None)
    floods = [sys.executable, "-c", "import os\nwhile True: os.write(1, bytes(4096))"]
    with subprocess.Popen(floods, stdout=stream.given, stderr=subprocess.DEVNULL) as process:
        stream.start()
        assert process.wait(60) != 0
    stream.finish(60)
    os.close(sink)


def test_one_that_never_started_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
    PassedStream(1, lambda *_: None).finish(1)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


_LENDS = """
import os, subprocess, sys
from ground.system.foreground import Foreground
from ground.system.process import OWN_GROUP
reader = subprocess.Popen(["sh", "-c", "read word; echo got $word"], **OWN_GROUP)
terminal = Foreground(reader.pid)
while reader.poll() is None:
    terminal.lend_if_asked()
lent = os.tcgetpgrp(0) == reader.pid
terminal.take_back()
print("lent", lent, "ours", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
"""


def test_it_is_lent_to_who_reads_from_it_and_taken_back() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", _LENDS])
    os.write(terminal, b"word\n")
    seen = b""
    with contextlib.suppress(OSError):  # at its end
        while more := os.read(terminal, 4096):
            seen += more
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0
    assert b"got word" in seen and b"lent True ours True" in seen


def test_without_a_terminal_there_is_nothing_to_lend() -> None:
    terminal = Foreground(os.getpid())
    terminal.lend_if_asked()
    terminal.take_back()
