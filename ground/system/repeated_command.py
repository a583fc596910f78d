"""A command of the user's that is run again and again, by one shell that ends with us, whatever ends us.

A supervisor for each run would take more CPU than most of these commands do.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import time

from ground.errors import MeasurementError
from ground.system.process import Child, Children, Output

__all__ = ("RepeatedCommand",)

# $1 the command, $2 a pipe: a line asks for a run; $3 a pipe for its exit code; $4 and $5 where it prints to.
_LOOP = """exec <"$2"; while read -r _; do sh -c "$1" </dev/null >"$4" 2>"$5"; echo $? >"$3"; done"""


class RepeatedCommand:
    """The shell is one of `children`, and starts with the first run."""

    def __init__(self, children: Children, name: str, command: str) -> None:
        self._children, self._name, self._command = children, name, command
        self._shell: Child | None = None
        self._orders = self._codes = self._out = self._err = -1

    def run(self, seconds: float) -> Output:
        """One run, to its end. MeasurementError where it does not end in so many seconds: it is killed, with all that
        it started, and so is the shell."""
        if self._shell is None:
            self._shell = self._start()
        with contextlib.suppress(BrokenPipeError):  # somebody ended the shell: there is no code to be read then
            os.write(self._orders, b"\n")
        deadline, code = time.monotonic() + seconds, b""
        while not code.endswith(b"\n"):
            if not select.select([self._codes], [], [], max(deadline - time.monotonic(), 0))[0]:
                self._shell.stop()
                raise MeasurementError(
                    f"{shlex.join(['sh', '-c', self._command])} did not end within {seconds:.0f} s",
                    means="it was stopped; its output is not used",
                )
            if not (part := os.read(self._codes, 16)):
                raise MeasurementError(f"{self._name}: its shell ended, {self._shell.describe_end()}")
            code += part
        said = (os.pread(one, os.fstat(one).st_size, 0) for one in (self._out, self._err))
        return Output(["sh", "-c", self._command], int(code), *said)

    def _start(self) -> Child:
        order_read, self._orders = os.pipe()
        self._codes, code_write = os.pipe()
        self._out, self._err = os.memfd_create("output"), os.memfd_create("errors")
        passed = (order_read, code_write, self._out, self._err)
        try:
            return self._children.start(
                self._name,
                ["sh", "-c", _LOOP, "sh", self._command, *(f"/dev/fd/{one}" for one in passed)],
                stop_signal=signal.SIGKILL,
                pass_fds=passed,
            )
        finally:
            os.close(order_read)
            os.close(code_write)
