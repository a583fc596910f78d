"""A poor man's profiler as an observer: one protocol, one file an implementation.

A sampler is a program of its own that speaks one control protocol: it prepares itself, answers `ready`, begins at the
order `open`, ends at `close`, and leaves `pmp.sampler.json` and its stacks in the run directory.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from collectors import pmp_gdb, pmp_stacksampler
from collectors.activity import Moment, between, moment
from collectors.pmp_plan import PmpPlan
from ioflame.errors import IoflameError, MeasurementError, UsageError, error_of_child
from ioflame.files import Files
from ioflame.held_process import HeldProcess
from ioflame.observer import QUIET_SECONDS
from ioflame.pmp import Pmp, write
from ioflame.process import Child, Children

__all__ = ("SAMPLERS", "PmpPlan", "Sampler", "Sampling", "sampler_named")

# gdb's trial reads every library of the process first.
_READY_SECONDS = 120.0
_ANSWER_SECONDS = 30.0


class Sampler(Protocol):
    """One way to sample the stacks of a process."""

    @property
    def name(self) -> str: ...

    def describe(self, plan: PmpPlan) -> str:
        """What is attached, in a few words."""

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        """The command line, without the options of the control protocol. HostError where it is not installed."""


SAMPLERS: dict[str, Sampler] = {
    "stacksampler": pmp_stacksampler.StackSampler(),
    "gdb": pmp_gdb.Gdb(),
}


def sampler_named(name: str) -> Sampler:
    if name not in SAMPLERS:
        raise UsageError(
            f"--sampler {name} is not known", means="nothing was started", mend=f"--sampler {'|'.join(SAMPLERS)}"
        )
    return SAMPLERS[name]


class Sampling:
    """A sampler on one process (an Observer): its stacks and `pmp.json` are in `directory` once it is detached."""

    kind = "pmp"

    def __init__(self, children: Children, plan: PmpPlan, pid: int, directory: Path) -> None:
        sampler = sampler_named(plan.sampler)
        self.what = sampler.describe(plan)
        self._children, self._directory, self._pid = children, directory, pid
        self._argv = sampler.command(plan, pid, directory)
        self._name = f"pmp {sampler.name}"
        self._log = directory / Files.PMP_LOG
        self._child: Child | None = None
        self._orders = self._answers = -1
        self._heard = ""
        self._opened: Moment | None = None
        self._closed: Moment | None = None

    def attach(self) -> None:
        """Starts the sampler; no thread is stopped yet (gdb: but for its trial)."""
        self._process = HeldProcess(self._pid)
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        control = ["--control", f"/dev/fd/{order_read}", "--answers", f"/dev/fd/{answer_write}"]
        try:
            self._child = self._children.start(
                self._name, [*self._argv, *control], stderr=self._log, pass_fds=(order_read, answer_write)
            )
        finally:
            os.close(order_read)
            os.close(answer_write)
        self._expect("ready", _READY_SECONDS)

    def open(self) -> None:
        """Begins sampling; returns once the sampler has said so."""
        self._opened = moment(self._process)
        with contextlib.suppress(BrokenPipeError):  # it is gone, and says why
            os.write(self._orders, b"open\n")
        self._expect("open", _ANSWER_SECONDS)

    def wait(self, seconds: float) -> None:
        """Lets it sample for so long, or until the process has ended."""
        assert self._child is not None
        self._child.wait(seconds)

    def close(self) -> None:
        """Ends sampling; returns once the sampler has said so: no thread is held by it any more."""
        with contextlib.suppress(BrokenPipeError):  # the process ended before the window did, and the sampler with it
            os.write(self._orders, b"close\n")
        self._expect("close", _ANSWER_SECONDS)
        self._closed = moment(self._process)

    def detach(self) -> None:
        """Waits until the sampler's files are whole, and writes `pmp.json`. Raises what the sampler failed with."""
        if self._child is None:
            return
        # The end of the orders ends a sampler that still waits for one.
        for fd in (self._orders, self._answers):
            os.close(fd)
        if self._child.wait(60.0, quiet=QUIET_SECONDS) is None:
            self._child.stop()
        child, self._child = self._child, None
        if child.returncode != 0:
            raise self._failure(child, "the sampler failed")
        found = self._raw()
        if self._opened and self._closed:
            found = replace(found, activity=between(self._opened, self._closed))
        write(found, self._directory / Files.PMP)

    def _raw(self) -> Pmp:
        path = self._directory / Files.PMP_RAW
        try:
            return msgspec.json.decode(path.read_bytes(), type=Pmp)
        except (OSError, msgspec.MsgspecError) as error:
            raise MeasurementError(f"{path} is not what the sampler writes: {error}") from None

    def _expect(self, answer: str, seconds: float) -> None:
        """Waits for `answer`, a line of its own with its time; where the process ended, `close` has come unasked."""
        assert self._child is not None
        if answer not in self._heard.split():
            ready = self._child.await_answer(self._answers, seconds, QUIET_SECONDS)
            self._heard += os.read(self._answers, 256).decode() if ready else ""
        if answer not in self._heard.split():
            self._child.wait(1.0)
            raise self._failure(self._child, f"the sampler did not answer {answer}")

    def _failure(self, child: Child, what: str) -> IoflameError:
        words = self._log.read_text(encoding="utf-8", errors="replace")[-2000:] if self._log.exists() else ""
        what = child.describe_end() if words.strip() else f"{what} ({child.describe_end()})"
        return error_of_child(child.returncode, words, what=what, mend=f"read {shlex.quote(str(self._log))}")
