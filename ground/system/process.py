"""Processes we start, own by pid, and end; no process is ever looked up by name.

A child gets a process group of its own, so that Ctrl-C reaches us alone and we stop the children in order. Each runs
under a supervisor (`supervisor.py`): nothing that it starts outlives it, nor an ioflame that was killed with SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from ground.errors import HostError, MeasurementError, UsageError
from ground.system import supervisor
from ground.system.descendants import Pulse

_T = TypeVar("_T")
_Stream = IO[bytes] | int | None

# For Popen: Ctrl-C reaches us alone. Python 3.10 has no `process_group`, and a new session would be scheduled apart.
OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
# What is killed ends as soon as the kernel lets it: a process that waits for a dead disk does not.
_KILLED_SECONDS = 10.0
_LOOK_SECONDS = 0.5
# One locale and one perf configuration for every tool we parse the output of.
_ENVIRONMENT = {"LC_ALL": "C", "PERF_CONFIG": os.devnull, "DEBUGINFOD_URLS": ""}


def tool_path(name: str, package: str) -> str:
    """The path of `name` on PATH; HostError naming the Debian `package` where there is none."""
    found = shutil.which(name)
    if found is None:
        raise HostError(f"{name} is not installed", mend=f"sudo apt-get install {package}")
    return found


def _environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, **_ENVIRONMENT, **(extra or {})}


class Output:
    """What a finished command left: exit code, standard output and standard error."""

    def __init__(self, argv: Sequence[str], returncode: int, stdout: bytes, stderr: bytes) -> None:
        self.argv = list(argv)
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self.stderr.decode("utf-8", "replace").strip()

    def require(self, doing: str) -> Output:
        """Self when the command succeeded; MeasurementError with its own words otherwise."""
        if self.returncode == 0:
            return self
        words = self.errors or self.text.strip() or "no error output"
        raise MeasurementError(
            f"{doing} failed with exit code {self.returncode}: {words[-2000:]}",
            mend=f"to see it again: {shlex.join(self.argv)}",
        )


@dataclass(frozen=True)
class Captured:
    """A helper command that ran to its end; times in Unix seconds."""

    argv: list[str]
    pid: int
    returncode: int
    started: float
    ended: float


_captured: ContextVar[list[Captured] | None] = ContextVar("captured", default=None)


@contextlib.contextmanager
def captures() -> Iterator[list[Captured]]:
    """What `capture` runs within, for a record of it."""
    found: list[Captured] = []
    token = _captured.set(found)
    try:
        yield found
    finally:
        _captured.reset(token)


_inherited: ContextVar[tuple[int, ...]] = ContextVar("inherited", default=())


@contextlib.contextmanager
def inherited(descriptor: int) -> Iterator[None]:
    """Within, whatever is started keeps it open until its end: a lock is held on to by those who outlive us."""
    token = _inherited.set((*_inherited.get(), descriptor))
    try:
        yield
    finally:
        _inherited.reset(token)


def capture(argv: Sequence[str], *, timeout: float, stdin: bytes | None = None) -> Output:
    """Run a short helper command to its end and keep what it prints.

    MeasurementError when it runs longer than `timeout` seconds (it is then killed, with its process group); UsageError
    when it does not start.
    """
    started = time.time()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            **OWN_GROUP,
            pass_fds=_inherited.get(),
        )
    except OSError as error:
        raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            raise MeasurementError(
                f"{shlex.join(argv)} did not end within {timeout:.0f} s", means="it was stopped; its output is not used"
            ) from None
        finally:
            # It is not reaped before the pipes are at their end: until then the number is that of its group.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    record = _captured.get()
    if record is not None:
        record.append(Captured(list(argv), process.pid, process.returncode, started, time.time()))
    return Output(argv, process.returncode, stdout, stderr)


class Child:
    """A process of ours with all below it, started by `Children.start`, stopped through its supervisor.

    pid: of the command itself; supervisor: of the process above it, whose child whatever outlives the command becomes
    """

    def __init__(self, name: str, argv: Sequence[str], process: subprocess.Popen[bytes], pid: int) -> None:
        self.name = name
        self.argv = list(argv)
        self.pid = pid
        self.supervisor = process.pid
        self._process = process
        self.started = time.time()
        self.ended: float | None = None

    @property
    def returncode(self) -> int | None:
        """Exit code; minus the signal that ended it; None while it, or anything that it started, runs."""
        code = self._process.poll()
        if code is not None and self.ended is None:
            self.ended = time.time()
        return code

    @property
    def running(self) -> bool:
        return self.returncode is None

    def wait(self, timeout: float, *, quiet: float | None = None) -> int | None:
        """Exit code once it ended; None if it still runs after `timeout` seconds.

        quiet: it is not waited for any longer once it has shown no life for so many seconds
        """
        deadline = time.monotonic() + timeout
        pulse = Pulse(self.pid)
        while (left := deadline - time.monotonic()) > 0 and self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(left if quiet is None else min(left, _LOOK_SECONDS))
            if quiet is not None and pulse.quiet_seconds() > quiet:
                break
        return self.returncode

    def await_answer(self, descriptor: int, timeout: float, quiet: float) -> bool:
        """True once there is something to read, or the end of file; False after `timeout` seconds, or `quiet` ones in
        which it has shown no life."""
        deadline = time.monotonic() + timeout
        pulse = Pulse(self.pid)
        while (left := deadline - time.monotonic()) > 0:
            if select.select([descriptor], [], [], min(left, _LOOK_SECONDS))[0]:
                return True
            if pulse.quiet_seconds() > quiet:
                break
        return False

    def stop(self, grace: float = 10.0, *, asks: int = 1, quiet: float | None = None) -> int | None:
        """Ask it and all below it to end, kill them after `grace` seconds; its exit code, None where it still runs.

        asks:  how often it is asked, `grace / asks` seconds apart
        quiet: it is killed sooner once it has shown no life for so many seconds
        """
        for _ in range(asks):
            if self.running:
                self._process.send_signal(supervisor.ASK)
                self.wait(grace / asks, quiet=quiet)
        if self.running:
            self._process.send_signal(supervisor.KILL)
            self.wait(_KILLED_SECONDS)
        return self.returncode

    def describe_end(self) -> str:
        """`exit code 1`, `killed by SIGKILL`, `still running`."""
        code = self.returncode
        if code is None:
            return "still running"
        if code < 0:
            known = -code in set(signal.Signals)  # most real-time signals have no name
            return f"killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        return f"exit code {code}"


class Children:
    """The children of one job; leaving the `with` block stops those that still run, the newest first.

    cpu_limit: CPU seconds at which the kernel ends a process of a child that is started from then on, by SIGXCPU, and a
    second later by SIGKILL; None without a limit
    """

    def __init__(self) -> None:
        self._children: list[Child] = []
        self.cpu_limit: int | None = None
        self._around = contextlib.ExitStack()

    def within(self, context: contextlib.AbstractContextManager[_T]) -> _T:
        """Enters what has to be there as long as any of the children runs, and is left when all have ended."""
        return self._around.enter_context(context)

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        stdout: Path | None = None,
        stderr: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        inherits: bool = False,
        instead: Mapping[int, int] | None = None,
    ) -> Child:
        """Starts a process and knows it from then on: no signal comes in between.

        argv:        the command line
        stdout:      the file its standard output goes to (None: thrown away)
        stderr:      the file its standard error goes to (None: with stdout)
        stop_signal: what asks it to end and keep its work (SIGINT for perf and bpftrace, SIGTERM otherwise)
        environment: more variables
        inherits:    a command of the user's: it has our standard streams and our environment, and neither is changed
        instead:     then by the number of a stream, 1 or 2: a descriptor that it has in its place
        """
        with contextlib.ExitStack() as files:
            out = files.enter_context(stdout.open("wb")) if stdout else subprocess.DEVNULL
            err = files.enter_context(stderr.open("wb")) if stderr else subprocess.STDOUT
            streams = (subprocess.DEVNULL, out, err) if not inherits else _own_streams(instead or {})
            own = _environment(environment) if not inherits else None
            with _deferred_interrupts():
                child = _supervised(name, argv, streams, stop_signal, pass_fds, own, self.cpu_limit)
                self._children.append(child)
        return child

    def __iter__(self) -> Iterator[Child]:
        """All of them, ended ones too, in the order of their start."""
        return iter(self._children)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._around:
            for child in reversed(self._children):
                child.stop()


def _own_streams(instead: Mapping[int, int]) -> tuple[None, int | None, int | None]:
    return None, instead.get(1), instead.get(2)


def _supervised(
    name: str,
    argv: Sequence[str],
    streams: tuple[_Stream, _Stream, _Stream],
    stop: signal.Signals,
    fds: Sequence[int],
    environment: Mapping[str, str] | None,
    cpu_limit: int | None,
) -> Child:
    """Returns once the command runs, or could not be executed: then it has ended, and says so where its errors go."""
    command = os.memfd_create("command")
    ready, ready_write = os.pipe()
    arguments = map(str, (command, ready_write, int(stop), os.getpid(), cpu_limit or 0))
    try:
        os.write(command, b"\0".join(map(os.fsencode, argv)))
        os.lseek(command, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, *arguments],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=environment,
            **OWN_GROUP,
            pass_fds=(*fds, *_inherited.get(), command, ready_write),
        )
    except BaseException:
        os.close(ready)
        raise
    finally:
        os.close(command)
        os.close(ready_write)
    with open(ready, "rb") as started:  # noqa: PTH123 - a descriptor, not a path
        pid = int(started.read() or process.pid)
    return Child(name, argv, process, pid)


class _Interrupts:
    """Whether an interrupt is raised where it arrives, and the one that waits when it is not."""

    deferred = False
    waiting: KeyboardInterrupt | None = None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within: SIGTERM and SIGHUP arrive as KeyboardInterrupt, as SIGINT does, so that one path cleans up."""

    def interrupt(signum: int, _frame: object) -> None:
        error = KeyboardInterrupt(signal.Signals(signum).name)
        if not _Interrupts.deferred:
            raise error
        _Interrupts.waiting = error

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # A shell that starts us in the background ignores SIGINT for us; a profile must still be stoppable.
    before = {signum: signal.signal(signum, interrupt) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Within: an interrupt of `interruptible` waits for the end of the block. Not to be nested."""
    _Interrupts.deferred = True
    try:
        yield
    finally:
        _Interrupts.deferred = False
        waiting, _Interrupts.waiting = _Interrupts.waiting, None
    if waiting is not None:
        raise waiting
