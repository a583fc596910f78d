"""A command of the user's that is run repeatedly, by one shell that ends with us, whatever ends us.

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

# Of what a run prints, on each of its outputs.
_MOST_BYTES = 1 << 16
# $1 the command, $2 a pipe: a line asks for a run; $3 a pipe for its exit code; $4 and $5 pipes that it prints to.
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
        said = {self._out: b"", self._err: b""}
        while not code.endswith(b"\n"):
            readable = select.select([self._codes, *said], [], [], max(deadline - time.monotonic(), 0))[0]
            self._take(said)
            if not readable:
                self._shell.stop()
                raise MeasurementError(
                    f"{shlex.join(['sh', '-c', self._command])} did not end within {seconds:.0f} s",
                    means="it was stopped; its output is not used",
                )
            if self._codes in readable:
                if not (part := os.read(self._codes, 16)):
                    raise MeasurementError(f"{self._name}: its shell ended, {self._shell.describe_end()}")
                code += part
        self._take(said)
        return Output(["sh", "-c", self._command], int(code), *said.values())

    def _take(self, said: dict[int, bytes]) -> None:
        """What was printed since the last time. MeasurementError where it is too much: the shell is killed."""
        assert self._shell is not None
        for pipe, known in said.items():
            with contextlib.suppress(BlockingIOError):
                said[pipe] = known + os.read(pipe, _MOST_BYTES + 1)
            if len(said[pipe]) > _MOST_BYTES:
                self._shell.stop()
                raise MeasurementError(
                    f"{shlex.join(['sh', '-c', self._command])} printed more than {_MOST_BYTES >> 10} KiB",
                    means="it was stopped; its output is not used",
                )

    def _start(self) -> Child:
        order_read, self._orders = os.pipe()
        self._codes, code_write = os.pipe()
        (self._out, out_write), (self._err, err_write) = os.pipe(), os.pipe()
        for one in (self._out, self._err):
            os.set_blocking(one, False)
        passed = (order_read, code_write, out_write, err_write)
        try:
            return self._children.start(
                self._name,
                ["sh", "-c", _LOOP, "sh", self._command, *(f"/dev/fd/{one}" for one in passed)],
                stop_signal=signal.SIGKILL,
                pass_fds=passed,
            )
        finally:
            for one in passed:
                os.close(one)
