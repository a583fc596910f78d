"""`ioflame-ebpf` as a child of ours: attached before a window, its gate opened and closed at the window's edges."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

from ioflame.errors import HostError, MeasurementError
from ioflame.process import Child, Children

__all__ = ("Tracer", "tracer_binary")

_ATTACH_SECONDS = 30.0
_HOST_CANNOT = 3


def tracer_binary() -> Path | None:
    """The built CO-RE loader; None where there is none (no clang at set-up)."""
    binary = Path(__file__).parent / "target" / "release" / "ioflame-ebpf"
    return binary if binary.exists() else None


class Tracer:
    """One program of the loader, under its control protocol.

    program: the subcommand (`iolat`); arguments: its options; out: where it writes its JSON; log: its standard error
    """

    def __init__(
        self, children: Children, binary: Path, program: str, arguments: Sequence[str], out: Path, log: Path
    ) -> None:
        self.out = out
        self._log = log
        self._name = f"ebpf {program}"
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        argv = [str(binary), program, *arguments, "--control", f"{order_read},{answer_write}", "-o", str(out)]
        try:
            self.child = children.add(
                Child(self._name, argv, stderr=log, stop_signal=signal.SIGINT, pass_fds=(order_read, answer_write))
            )
        finally:
            os.close(order_read)
            os.close(answer_write)
        self._read("ready", _ATTACH_SECONDS)

    def open(self) -> int:
        """Begins counting; CLOCK_MONOTONIC of that moment, ns."""
        return self._order("open")

    def close(self) -> int:
        """Ends counting; CLOCK_MONOTONIC of that moment, ns."""
        return self._order("close")

    def finish(self) -> None:
        """Detaches and waits until the result is written. MeasurementError or HostError when the program failed."""
        os.close(self._orders)
        code = self.child.wait(60)
        os.close(self._answers)
        if code != 0:
            raise self._failure(f"{self._name} failed")

    def _order(self, order: str) -> int:
        os.write(self._orders, f"{order}\n".encode())
        return int(self._read(order, 10.0))

    def _read(self, what: str, seconds: float) -> str:
        ready, _, _ = select.select([self._answers], [], [], seconds)
        answer = os.read(self._answers, 64).decode() if ready else ""
        if not answer:
            raise self._failure(f"{self._name} did not answer to {what}")
        return answer.strip()

    def _failure(self, what: str) -> HostError | MeasurementError:
        words = self._log.read_text(errors="replace").strip()[-1000:] if self._log.exists() else ""
        message = f"{what} ({self.child.describe_end()}): {words or 'it said nothing'}"
        if self.child.returncode == _HOST_CANNOT:
            return HostError(message, mend="ioflame doctor")
        return MeasurementError(message, mend=f"read {self._log}")
