"""What of a command is watched: each process below it that works on a database, or the program itself; and the lines
of progress that a client prints, which count its queries."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from collectors.known_counts import rate_of_all
from collectors.printed_count import PrintedCount
from collectors.report_phases import ReportedPhase
from collectors.rocksdb_clients import open_database
from ground.errors import UsageError
from ground.results.interval import Interval
from ground.system.descendants import descendants
from ground.system.foreground import Foreground
from ground.system.held_process import HeldProcess
from ground.system.passed_stream import PassedStream
from ground.system.process import Child
from ground.system.target import Target
from ground.text.progress import Reporter
from ioflame.measure.attach.benchmarks import Benchmark, bench_of
from ioflame.measure.own_command.command_line import StartedCommand
from workloads.counted_clients import CountedClient
from workloads.engines.rocksdb.command_line import BenchCommand

_LOOK_SECONDS = 0.05
# A program that has no database open by then works on none that we know.
_PATIENCE_SECONDS = 2.0
# What a command leaves behind has so long to end by itself.
_LEFT_SECONDS = 2.0
_DESCRIPTORS = MappingProxyType({"stdout": 1, "stderr": 2})
_STREAMS = MappingProxyType({1: "standard output", 2: "standard error"})
# Some print only every 10 s, and a database may be long in opening.
_FIRST_SECONDS = 30.0
# What has been printed is passed on long before.
_REST_SECONDS = 5.0


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


@dataclass(frozen=True)
class BenchmarkPhase:
    """What is watched as one run: of `process`, called `name`.

    bench: where it is a db_bench's; left: seconds until its end, infinite where that is not known
    lasts: it was asked to run so long
    """

    process: HeldProcess
    target: Target
    name: str
    bench: Benchmark | None
    left: Callable[[], float]
    lasts: bool = False


def seconds_left(bench: BenchCommand, name: str, phase: ReportedPhase) -> float:
    """Until a benchmark ends: by its duration, or by its number of operations at its rate of now."""
    with contextlib.suppress(ZeroDivisionError):
        seconds = bench.seconds(name)
        if seconds is None:
            return max((bench.operations(name) - phase.operations) / phase.rate, 0.0)
        begun = phase.report.started_ns
        done = (time.monotonic_ns() - begun) / 1e9 if begun is not None else len(phase.report.rates) * bench.interval
        return seconds - done
    return math.inf


class PrintedLines:
    """count: of queries; instead: what the command is given in place of our stream

    seconds:         how long it was asked to run; None where that is not known
    queries_at_once: by its connections or threads; 0 where that is not known
    """

    def __init__(
        self, client: CountedClient, command: StartedCommand, reporter: Reporter, to: Mapping[int, int] | None = None
    ) -> None:
        """to: where its streams go in place of ours"""
        words, program = command.words, command.program
        self.seconds, self.queries_at_once = client.seconds(words), client.queries_at_once(words)
        self._descriptor = _DESCRIPTORS[client.stream]
        self._program, self._client = program, client
        self.count = PrintedCount(f"the lines that {program} prints", client.pattern, time.monotonic_ns())
        passed_to = (to or {}).get(self._descriptor, self._descriptor)
        self._stream = PassedStream(passed_to, self.count.seen)
        self.instead: Mapping[int, int] = {self._descriptor: self._stream.given}
        if os.isatty(passed_to):
            stream = _STREAMS[self._descriptor]
            reporter.line(
                f"queries are counted by {self.count.count.what}; its {stream} is a pipe to ioflame, which hands on "
                "each byte: to it that is no terminal (--untouched leaves it one)"
            )

    def start(self) -> None:
        """Once the command runs."""
        self._stream.start()

    def finish(self) -> None:
        """Once it has ended, and all that it started."""
        self._stream.finish(_REST_SECONDS)

    def counts(self, process: HeldProcess) -> bool:
        """Whether there was a first line; waits for it as long as the process lives."""
        deadline = time.monotonic() + _FIRST_SECONDS
        while self._begun_ns is None and process.alive and time.monotonic() < deadline and not self.count.failed:
            time.sleep(_LOOK_SECONDS)
        return self._begun_ns is not None and not self.count.failed

    @property
    def without_count(self) -> str:
        """What it means that there was none."""
        why = self.count.failed or f"in {_FIRST_SECONDS:.0f} s it printed no line that matches {self._client.line}"
        return f"the queries of {self._program} are not counted: {why}"

    def left(self) -> float:
        """Seconds until it ends; infinite where that is not known."""
        if self.seconds is None:
            return math.inf
        begun = self._begun_ns if self._begun_ns is not None else time.monotonic_ns()
        return self.seconds - (time.monotonic_ns() - begun) / 1e9

    def rate_of_all(self, ran_ns: int) -> Interval | None:
        """Queries a second of a client that has ended. ran_ns: when it was last seen running"""
        if self._begun_ns is None or self.count.failed:
            return None
        return rate_of_all(self.count.known, self._begun_ns, ran_ns, time.monotonic_ns())

    @property
    def _begun_ns(self) -> int | None:
        return self.count.begun_ns
