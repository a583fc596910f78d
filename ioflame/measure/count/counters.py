"""Who counts what a program of ours does: callgrind, in any environment, or the processor, where it has a counter.

Both count the same stream of operations and are never compared with each other: a processor counts a repeated string
instruction once, and the functions of the kernel's vDSO.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.callgrind import counting_argv, depends_on
from collectors.repeatable import facts_of_program, repeatable
from folding.callgrind import Counts, counts_below
from ground.errors import HostError, MeasurementError
from ground.results.counted import Event
from ground.system.cpus import held_on
from ground.system.host import host_facts
from ground.system.process import capture, tool_path
from workloads.counted_operations import CountedOperation
from workloads.our_client import client_words, closing_line

_COUNTS = "counts"


@dataclass(frozen=True)
class Callgrind:
    """By category and function, on any host, ten times as slow or more. valgrind: the program

    words:   of the client, beside those of the operation; under: in messages, what the program runs under
    at_once: programs at most; None for as many as there are CPUs
    """

    valgrind: str
    words: Sequence[str] = ()
    under: str = "under valgrind"
    at_once: int | None = None

    @classmethod
    def found(cls, *_: object) -> Callgrind:
        """HostError where it is not installed."""
        return cls(tool_path("valgrind", "valgrind"))

    def depends_on(self, client: Path, allocator: str) -> dict[str, str]:
        """What counts depend on besides the engine."""
        return depends_on(self.valgrind, client, allocator)

    def argv(self, words: Sequence[str], place: Path, padding: int, preload: Path | None) -> list[str]:
        """The command line that counts the client with these words, in `place`."""
        return counting_argv(self.valgrind, words, _COUNTS, place, padding, preload)

    def counts(self, place: Path, log: str, operation: CountedOperation, rules: str, folded: Path | None) -> Counts:
        """What was counted in `place`. log: what the client printed; folded: where the stacks are written"""
        del log
        return counts_below([place / _COUNTS], operation.root, rules, folded)


# By perf's names, which the client takes as well.
_OF_PROCESSOR = {Event.INSTRUCTIONS: "instructions:u", Event.MISPREDICTIONS: "branch-misses:u"}


@dataclass(frozen=True)
class Processor:
    """By the processor's own counters, at full speed: without categories; of flush and compaction all the threads.

    What it has is said of `Callgrind`.

    events: perf's name of each
    """

    events: Mapping[Event, str]
    under: str = "by the processor's counters"
    # The others would move it from CPU to CPU, and share the counters with it.
    at_once: int | None = 1

    @property
    def words(self) -> Sequence[str]:
        return [f"--counted_events={','.join(self.events.values())}"]

    @classmethod
    def found(cls, client: Path, benchmark: str, events: Mapping[Event, str] = _OF_PROCESSOR) -> Processor:
        """HostError, in the client's words, where the processor has no such counters for us.

        benchmark: of the client, which is run once on no engine
        """
        made = cls(events)
        argv = [str(client), "--engine=nothing", f"--benchmarks={benchmark}", "--reads=1", "--counted=1", *made.words]
        done = capture(argv, timeout=60)
        if done.returncode:
            what, means, _ = client_words(done.errors)
            raise HostError(what, means=means, mend="--by callgrind, which needs no counter")
        return made

    def depends_on(self, client: Path, allocator: str) -> dict[str, str]:
        counted = {"counted by": ", ".join(self.events.values()), "kernel": platform.release()}
        return {**counted, **facts_of_program(client, allocator), "processor": host_facts()["cpu"]}

    def argv(self, words: Sequence[str], place: Path, padding: int, preload: Path | None) -> list[str]:
        # Addresses are not drawn anew each time: setarch's personality is inherited.
        fixed = [tool_path("setarch", "util-linux"), "-R", *words]
        return repeatable(held_on(str(max(os.sched_getaffinity(0))), fixed), place, padding, preload)

    def counts(self, place: Path, log: str, operation: CountedOperation, rules: str, folded: Path | None) -> Counts:
        del place, rules, folded
        closing = closing_line(log, operation.counted_benchmark)
        counted = closing["events"] if closing else {}
        events = {event: sum(counted.get(name, ())) for event, name in self.events.items()}
        if not events.get(Event.INSTRUCTIONS):
            raise MeasurementError(f"the client printed no counts of {operation.name}: {log[-400:].strip()}")
        return Counts(events, {})


Counter = Callgrind | Processor
# By the name that --by takes; each is given the client, and one of its benchmarks.
BACKENDS: dict[str, Callable[[Path, str], Counter]] = {"callgrind": Callgrind.found, "processor": Processor.found}
