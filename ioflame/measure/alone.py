"""One observer by itself, on processes that are not ours."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collectors.pmp import Sampling, sampler_named
from collectors.pmp_plan import PmpPlan
from ground.errors import HostError, IoflameError, MeasurementError, UsageError
from ground.results.checks import Check, Verdict
from ground.results.run import check_writable, new_directory
from ground.system.held_process import HeldProcess
from ground.system.observer import Observer, attached
from ground.system.process import Children
from ground.text.progress import Reporter


@dataclass
class Ended:
    """How a window ended: by a signal to us, and what has to be said of its length."""

    interrupted: bool = False
    checks: list[Check] = field(default_factory=list)


def watch(observer: Observer, pids: Sequence[int], seconds: float, reporter: Reporter) -> Ended:
    """One window of so many seconds, or until a signal or the end of every process ends it."""
    ended = Ended()
    doing = f"counting for {seconds:g} s; Ctrl-C ends it earlier"
    with contextlib.ExitStack() as stack:
        with reporter.stage(f"attach {observer.what}"), _said_if_gone(pids, observer.kind):
            stack.enter_context(attached(observer, reporter))
        observer.open()
        begun = time.monotonic()
        all_ended = False
        try:
            # A moving line on a terminal; elsewhere one line, once it counts, for who waits for that.
            if not sys.stderr.isatty():
                print(doing, file=sys.stderr, flush=True)
            with reporter.stage(doing, seconds):
                all_ended = _wait(pids, seconds)
        except KeyboardInterrupt:
            ended.interrupted = True
        lasted = time.monotonic() - begun
        observer.close()
    if ended.interrupted or all_ended:
        why = "it was interrupted" if ended.interrupted else "every process has ended"
        verdict = Verdict.NOTE if ended.interrupted else Verdict.WARN
        ended.checks.append(
            Check("window", verdict, f"{lasted:.1f} of {seconds:g} s: {why}", "the figures are of that time")
        )
    return ended


@contextlib.contextmanager
def _said_if_gone(pids: Sequence[int], observer: str) -> Iterator[None]:
    """What is refused within is said to be so because every process has ended, where that is why."""
    held = []
    for pid in pids:
        with contextlib.suppress(UsageError):  # who watches says that there is none
            held.append(HeldProcess(pid))
    try:
        yield
    except IoflameError:
        if not held or any(process.alive for process in held):
            raise
        ended = f"process {pids[0]} ended" if len(pids) == 1 else "every process ended"
        raise MeasurementError(
            f"{ended} while {observer} was being attached",
            means="nothing was measured",
            mend="--pid <a process that lives longer>; of a command of your own: ioflame run -- COMMAND",
        ) from None


def _wait(pids: Sequence[int], seconds: float) -> bool:
    """Until the time is over, or every process has ended (True)."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        alive = select.poll()
        left = set()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                alive.register(descriptor, select.POLLIN)
                left.add(descriptor)
        while left:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            for descriptor, _ in alive.poll(remaining * 1000):
                alive.unregister(descriptor)
                left.discard(descriptor)
    return True


@contextlib.contextmanager
def _refused_without(out: Path, name: str) -> Iterator[Path]:
    """A new directory; where what is within is refused, it is gone again, and so is `out` where that was not there."""
    first = not out.exists()
    directory = new_directory(out, name)
    try:
        yield directory
    except (UsageError, HostError) as error:
        shutil.rmtree(directory)
        if first:
            out.rmdir()
        if str(directory) in error.mend:  # its log, all of which is said above
            error.mend = "--pid <a running process of yours; see ps>"
        raise


def sample(plan: PmpPlan, pid: int, seconds: float, out: Path, reporter: Reporter) -> tuple[Path, bool]:
    """The new directory in `out` with what the poor man's profiler sampled, and whether the user cut it short."""
    HeldProcess(pid)  # before there is a directory for it
    sampler_named(plan.sampler)
    check_writable(out)
    interrupted = False
    with Children() as children, _refused_without(out, f"pmp-{pid}") as directory:
        sampling = Sampling(children, plan, pid, directory)
        doing = f"sampling process {pid}: {sampling.what}"
        with reporter.stage(doing, seconds), contextlib.ExitStack() as stack:
            with _said_if_gone([pid], sampling.kind):
                stack.enter_context(attached(sampling, reporter))
            sampling.open()
            try:
                sampling.wait(seconds)
            except KeyboardInterrupt:
                interrupted = True
            sampling.close()
    return directory, interrupted
