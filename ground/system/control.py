"""A program that observes, as a child of ours: attached before a window, told when it begins and ends, and the next.

`crates/observer/src/control.rs` describes the protocol with all its states.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError, IoflameError, MeasurementError, UsageError
from ground.system.observer import QUIET_SECONDS
from ground.system.process import Child, Children

# Orders are OPEN and CLOSE; each of the three words is an answer, with the time.
READY, OPEN, CLOSE = "ready", "open", "close"

# gdb's trial reads every library of the process first.
_READY_SECONDS = 120.0
_ANSWER_SECONDS = 30.0
_FINISH_SECONDS = 300.0


def answer_line(word: str, ns: int) -> bytes:
    """An answer as it goes through the pipe; ns: CLOCK_MONOTONIC."""
    return f"{word} {ns}\n".encode()


class ControlledProgram:
    """One observing program. Started at once; `await_ready` before anything else.

    name: for messages (`ebpf iolat`); argv: its command line, to which `--control` is added; log: its standard error
    mend: of a failure that names nothing that would mend it
    """

    def __init__(self, children: Children, name: str, argv: Sequence[str], log: Path, *, mend: str = "") -> None:
        self._name, self._log, self._mend = name, log, mend
        self._failed = False
        self._heard = b""
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        control = ["--control", f"{order_read},{answer_write}"]
        try:
            self.child: Child = children.start(name, [*argv, *control], stderr=log, pass_fds=(order_read, answer_write))
        finally:
            os.close(order_read)
            os.close(answer_write)

    def await_ready(self) -> None:
        """Returns once it is attached. Raises what it refused with: HostError where this host cannot, UsageError for
        what was asked, MeasurementError otherwise."""
        self._await(READY, _READY_SECONDS)

    def open(self) -> int:
        """Begins counting; CLOCK_MONOTONIC of that moment, ns. Of a program that takes turns: again after each `close`,
        unless it has ended by itself."""
        return self._order(OPEN)

    def close(self) -> int:
        """Ends counting; CLOCK_MONOTONIC of that moment, ns, which may be earlier where it has ended by itself."""
        return self._order(CLOSE)

    def finish(self) -> bool:
        """Waits until its files are whole. Raises what it failed with; False where that has been raised before."""
        if self._orders < 0:
            return not self._failed
        os.close(self._orders)
        self._orders = -1
        # One that did not answer has no result to wait for.
        code = None if self._failed else self.child.wait(_FINISH_SECONDS, quiet=QUIET_SECONDS)
        if code is None:
            self.child.stop()
        os.close(self._answers)
        if code != 0 and not self._failed:
            raise self._failure(f"{self._name} failed")
        return not self._failed

    def _order(self, word: str) -> int:
        # One that is gone has closed its end: the answer that does not come says so.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._orders, f"{word}\n".encode())
        return self._await(word, _ANSWER_SECONDS)

    def _await(self, word: str, seconds: float) -> int:
        """The time that the next answer `word` carries."""
        while True:
            while b"\n" in self._heard:
                line, _, self._heard = self._heard.partition(b"\n")
                answer, _, ns = line.decode().partition(" ")
                if answer == word:
                    return int(ns)
            ready = self.child.await_answer(self._answers, seconds, QUIET_SECONDS)
            more = os.read(self._answers, 256) if ready else b""
            if not more:
                starts = word == "ready"
                raise self._failure(f"{self._name} {'failed to start' if starts else f'did not answer {word}'}")
            self._heard += more

    def _failure(self, what: str) -> IoflameError:
        """What it refused, by its exit code and its words: `what failed`, `  meaning: ...`, `  fix: ...`."""
        self._failed = True
        code = self.child.wait(10.0)
        # All that it said: its log may be gone by the time that anybody reads this.
        words = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        parts = {"meaning": "", "fix": ""}
        said = []
        for line in words.strip().splitlines():
            name, _, text = line.strip().partition(": ")
            if name in parts:
                parts[name] = text
            else:
                said.append(line.strip())
        kinds = {UsageError.exit_code: UsageError, HostError.exit_code: HostError}
        kind = kinds.get(code or 0, MeasurementError)
        what = f"{what}: {self.child.describe_end()}"
        otherwise = "ioflame doctor" if kind is HostError else self._mend
        return kind(
            f"{' '.join(said)} ({what})" if said else what,
            means=parts["meaning"],
            mend=parts["fix"] or otherwise,
        )
