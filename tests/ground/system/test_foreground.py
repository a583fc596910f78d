"""A command that reads from our terminal gets it, and gives it back."""

from __future__ import annotations

import contextlib
import os
import pty
import sys

from ground.system.foreground import Foreground
from tests.places import ROOT

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
