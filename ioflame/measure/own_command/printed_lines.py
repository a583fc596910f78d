"""The lines of progress that a client prints: read while they pass, and what they count."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from types import MappingProxyType

from collectors.known_counts import rate_of_all
from collectors.printed_count import PrintedCount
from ground.results.interval import Interval
from ground.system.held_process import HeldProcess
from ground.system.passed_stream import PassedStream
from ground.text.progress import Reporter
from ioflame.measure.own_command.command_words import StartedCommand
from workloads.counted_clients import CountedClient

_DESCRIPTORS = MappingProxyType({"stdout": 1, "stderr": 2})
_STREAMS = MappingProxyType({1: "standard output", 2: "standard error"})
# Some print only every 10 s, and a database may be long in opening.
_FIRST_SECONDS = 30.0
_LOOK_SECONDS = 0.05
# What has been printed is passed on long before.
_REST_SECONDS = 5.0


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
        self.count = PrintedCount(f"the lines that {program} prints", client.pattern)
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
