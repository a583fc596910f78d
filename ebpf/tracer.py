"""`ioflame-ebpf` as a child of ours: attached before a window, its gate opened and closed at the window's edges."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from ioflame.binaries import built_binary
from ioflame.errors import HostError, IoflameError, error_of_child
from ioflame.observer import QUIET_SECONDS
from ioflame.process import Children

__all__ = ("Tracer", "tracer_binary")

_ATTACH_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_FINISH_SECONDS = 60.0


def tracer_binary() -> Path | None:
    """The built CO-RE loader; None where there is none (no clang at set-up)."""
    try:
        return built_binary("ioflame-ebpf")
    except HostError:
        return None


class Tracer:
    """One program of the loader, under its control protocol. Started at once; `await_ready` before anything else.

    program: the subcommand (`iolat`); arguments: its options; out: where it writes its JSON; log: its standard error
    """

    def __init__(
        self, children: Children, binary: Path, program: str, arguments: Sequence[str], out: Path, log: Path
    ) -> None:
        self.out = out
        self._log = log
        self._name = f"ebpf {program}"
        self._failed = False
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        argv = [str(binary), program, *arguments, "--control", f"{order_read},{answer_write}", "-o", str(out)]
        try:
            self.child = children.start(
                self._name, argv, stderr=log, stop_signal=signal.SIGINT, pass_fds=(order_read, answer_write)
            )
        finally:
            os.close(order_read)
            os.close(answer_write)

    def await_ready(self) -> None:
        """Returns once every probe is attached. HostError where this host cannot, UsageError for what was asked."""
        self._read("ready", _ATTACH_SECONDS)

    def open(self) -> int:
        """Begins counting; CLOCK_MONOTONIC of that moment, ns."""
        return self._order("open")

    def close(self) -> int:
        """Ends counting; CLOCK_MONOTONIC of that moment, ns."""
        return self._order("close")

    def finish(self) -> None:
        """Detaches and waits until the result is written.

        MeasurementError or HostError when the program failed, unless it has been raised before.
        """
        if self._orders < 0:
            return
        os.close(self._orders)
        self._orders = -1
        # One that did not answer has no result to wait for.
        code = None if self._failed else self.child.wait(_FINISH_SECONDS, quiet=QUIET_SECONDS)
        if code is None:
            self.child.stop(grace=1.0)
        os.close(self._answers)
        if code != 0 and not self._failed:
            raise self._failure(f"{self._name} failed")

    def _order(self, order: str) -> int:
        # A child that is gone has closed its end: the answer that does not come says so.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._orders, f"{order}\n".encode())
        return int(self._read(order, _ANSWER_SECONDS))

    def _read(self, what: str, seconds: float) -> str:
        """The next line of its answers; a byte at a time, so that what follows stays in the pipe."""
        line = b""
        while True:
            ready = self.child.await_answer(self._answers, seconds, QUIET_SECONDS)
            byte = os.read(self._answers, 1) if ready else b""
            if byte == b"\n":
                return line.decode()
            if not byte:
                raise self._failure(f"{self._name} did not answer to {what}")
            line += byte

    def _failure(self, what: str) -> IoflameError:
        self._failed = True
        self.child.wait(1.0)
        # All that it said: its log may be gone by the time that anybody reads this.
        words = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        host = self.child.returncode == HostError.exit_code
        return error_of_child(
            self.child.returncode,
            words,
            what=f"{what}: {self.child.describe_end()}",
            mend="ioflame doctor" if host else "",
        )
