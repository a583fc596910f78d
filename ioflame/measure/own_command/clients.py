"""What of a command is worth watching: each process below it that works on a database, or the program itself."""

from __future__ import annotations

import os
import time

from collectors.rocksdb_clients import open_database
from ground.errors import UsageError
from ground.system.descendants import descendants
from ground.system.foreground import Foreground
from ground.system.held_process import HeldProcess
from ground.system.process import Child
from ioflame.measure.attach.benchmarks import bench_of
from ioflame.measure.own_command.command_words import StartedCommand

_LOOK_SECONDS = 0.05
# A program that has no database open by then works on none that we know.
_PATIENCE_SECONDS = 2.0
# What a command leaves behind has so long to end by itself.
_LEFT_SECONDS = 2.0


class Clients:
    """Looks for them among the command's process and all below it, those that it has left behind too.

    unreadable: processes of other users, which may be such clients
    left:       processes that outlived the command
    """

    def __init__(self, child: Child, command: StartedCommand, *, whole: bool) -> None:
        """whole: watch the command with all below it, whatever that does"""
        self._child, self._command, self._whole = child, command, whole
        self._given: set[int] = set()
        self._begun = time.monotonic()
        self._own: HeldProcess | None = _held(child.pid)
        self._terminal = Foreground(child.pid)
        self.unreadable: set[int] = set()
        self.left: list[int] = []

    def next(self) -> HeldProcess | None:
        """Waits for the next; None once the command has ended, and what it left behind is none, or does not end."""
        ended_at: float | None = None
        while self._child.running:
            self._terminal.lend_if_asked()
            below = descendants([self._child.supervisor])[1:]
            for process in map(_held, [pid for pid in below if pid not in self._given] if not self._whole else []):
                if process is not None and self._is_client(process):
                    self._given.add(process.pid)
                    return process
            own = self._own
            if own is not None and own.alive:
                if self._is_due() and own.pid not in self._given:
                    self._given.add(own.pid)
                    return own
            elif ended_at is None:
                ended_at = time.monotonic()
            elif time.monotonic() - ended_at > _LEFT_SECONDS:
                self.left = below
                return None
            time.sleep(_LOOK_SECONDS)
        return None

    def close(self) -> None:
        """The command has ended: the terminal is ours again."""
        self._terminal.take_back()

    def _is_due(self) -> bool:
        """Whether the command's own process is to be watched, as no client was found."""
        if self._whole:
            return True
        command, waited = self._command, time.monotonic() - self._begun >= _PATIENCE_SECONDS
        # What starts a known client does so for nothing else.
        alone = command.client is not None or not command.script
        return alone and command.bench is None and not self._given and waited

    def _is_client(self, process: HeldProcess) -> bool:
        if not os.access(process.path("fd"), os.R_OK):
            if process.alive:
                self.unreadable.add(process.pid)
            return False
        return bench_of(process) is not None or open_database(process) is not None


def _held(pid: int) -> HeldProcess | None:
    try:
        return HeldProcess(pid)
    except UsageError:
        return None
