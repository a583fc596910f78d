"""Whose the terminal is: a command that reads from it is let to, as a shell does it with its jobs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from ground.system.proc_stat import stat_fields


class Foreground:
    """Our terminal, which is lent to the process group of a command once that waits for it.

    Until then Ctrl-C reaches us, who pass it on; from then on it reaches the command by itself.
    """

    def __init__(self, group: int) -> None:
        """group: whose first process has the same number"""
        self._group = group
        self._terminal = -1
        with contextlib.suppress(OSError, ValueError):
            terminal = sys.stdin.fileno()
            if os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp():
                self._terminal = terminal
        self._lent = False

    def lend_if_asked(self) -> None:
        """The kernel has stopped who reads from a terminal in whose background it is (SIGTTIN)."""
        if self._terminal < 0 or self._lent:
            return
        with contextlib.suppress(OSError):
            if stat_fields(f"/proc/{self._group}/stat")[0] == b"T":
                self._give(self._group)
                self._lent = True
                os.killpg(self._group, signal.SIGCONT)

    def take_back(self) -> None:
        if self._lent:
            with contextlib.suppress(OSError):
                self._give(os.getpgrp())
            self._lent = False

    def _give(self, group: int) -> None:
        # Who gives the terminal away from its background is stopped for it, unless it looks away.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            os.tcsetpgrp(self._terminal, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
