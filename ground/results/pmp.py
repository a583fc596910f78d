"""What a poor man's profiler leaves in a run directory: `pmp.json` and `locks.json`.

Weights are ns of wall time: a sample weighs the time since its thread's last one. The stacks are in `pmp.folded`, with
the thread's state as their leaf frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ground.results.files import Files
from ground.results.ranges import Amount, Count, OrNone, Turn, Windowed
from ground.system.atomic_files import read_json

# Of the rate that was asked for.
_REACHED = 0.9


@dataclass(frozen=True)
class Tally:
    """A number of samples, and their weight in wall time, ns."""

    samples: Count
    weight_ns: Count


@dataclass(frozen=True)
class Durations:
    """How long something lasted `n` times, ns; percentiles are values that were seen (nearest rank)."""

    n: Count
    total_ns: Count
    mean_ns: Count
    p50_ns: Count
    p90_ns: Count
    p99_ns: Count
    max_ns: Count


@dataclass(frozen=True)
class ThreadSamples:
    """The samples of one thread; name: its last one; states: by R, S, D, T and ?."""

    tid: Count
    name: str
    samples: Count
    weight_ns: Count
    states: dict[str, Tally]


@dataclass(frozen=True)
class WaitPlace:
    """Where threads were seen: state, the kernel function they wait in, system call number (-1: none)."""

    state: str
    wchan: str
    syscall: OrNone
    samples: Count
    weight_ns: Count


@dataclass(frozen=True)
class Lacking:
    """Samples that lack something.

    ended:        the thread ended before it stopped
    did_not_stop: it stayed in the kernel until the end: its kernel side was kept
    refused:      another tracer had it, or it may not be traced
    left_alone:   it was in a system call whose caller would have seen a stop
    moved:        it ran on between the look at its state and its stop: counted as running, without kernel frames
    """

    ended: Count = 0
    did_not_stop: Count = 0
    refused: Count = 0
    left_alone: Count = 0
    moved: Count = 0


@dataclass(frozen=True)
class Activity:
    """What the process and the host did while it was sampled.

    switches, voluntary_switches: context switches of the process, and those of them in which it gave up the CPU itself
    user_cpus, system_cpus: CPU of the process, in CPUs (1.0: one of them all the time)
    host_switches:          context switches of the whole host
    host_user, host_system: share of all CPUs' time, 0..1: the `us` and `sy` of vmstat
    """

    seconds: Amount
    switches: Count
    voluntary_switches: Count
    user_cpus: Amount
    system_cpus: Amount
    host_switches: Count
    host_user: Amount
    host_system: Amount


@dataclass(frozen=True)
class Pmp(Windowed):
    """`pmp.json`.

    sampler:   which implementation (`stacksampler`, `gdb`)
    callgraph: how callers were found (`dwarf`, `fp`, or `gdb`)
    start_ns, end_ns: CLOCK_MONOTONIC; turns: those within, where it took turns
    end:       why it ended (`time`, `signal`, `closed`, `target ended`)
    rounds, late_rounds: looks at all threads; those left out because the one before lasted too long
    held:      from the last look that saw no thread stopped until the thread was resumed: at least as long as it was
               stopped, stops that were not asked for included
    stop:      from when a thread was asked to stop until it was resumed: what it lost at most; for one that waited for
               a disk meanwhile the same as `held`
    whole_process: a stop stops all threads at once (gdb), not one thread
    cpu_ns:    CPU time of the sampler itself
    activity:  None where the sampler was not driven by ioflame; of the threads that were there at both edges:
    reached_hz: samples a second and thread; unseen: how many have none. None as `activity`
    """

    sampler: str
    pid: Count
    event: str
    hz: Amount
    callgraph: str
    stack_bytes: Count
    start_ns: Count
    end_ns: Count
    end: str
    rounds: Count
    late_rounds: Count
    samples: Count
    weight_ns: Count
    states: dict[str, Tally]
    threads: list[ThreadSamples]
    places: list[WaitPlace]
    held: Durations
    stop: Durations
    lacking: Lacking
    cpu_ns: Count
    notes: list[str] = field(default_factory=list)
    whole_process: bool = False
    activity: Activity | None = None
    reached_hz: Amount | None = None
    unseen: Count | None = None
    turns: list[Turn] = field(default_factory=list)
    schema: int = 1

    @property
    def rate_words(self) -> str:
        """`10 a second and thread`, with what was asked for where it was not reached, and the threads unseen."""
        if self.reached_hz is None:
            return f"{self.hz:g} a second and thread asked for"
        words = f"{self.reached_hz:.3g} a second and thread"
        if self.is_slow:
            words += f" ({self.hz:g} asked for)"
        return words + (f", {self.unseen:,} more threads without a sample" if self.unseen else "")

    @property
    def is_slow(self) -> bool:
        """Whether the rate that was asked for was not reached."""
        return self.reached_hz is not None and self.reached_hz < _REACHED * self.hz

    @property
    def cut_short(self) -> str:
        """What ended it before whoever ordered it did; "" where nothing did."""
        causes = {"signal": f"a signal ended {self.sampler}", "target ended": f"process {self.pid} ended"}
        return causes.get(self.end, "")


@dataclass(frozen=True)
class LockSite:
    """Threads in lock code, by where they are.

    place:      the first frame that is no lock primitive, or an owner category
    kind:       of the primitive: `mutex`, `rwlock`, `spin`, `semaphore`, `futex`, `condition`; "" in a category
    category:   the owner category that the stacks belong to; of a place with several, the heaviest
    waiting:    blocked there (S or D)
    running:    running in the lock's own code: taking it, letting it go, spinning
    """

    place: str
    kind: str
    category: str
    waiting: Tally
    running: Tally


@dataclass(frozen=True)
class Locks:
    """`locks.json`: who waits for locks, and where from.

    idle_threads, idle: threads that wait for conditions at least 99 % of their time, such as those of a pool without
                work, and their samples; all else is of the threads that work. Where no thread works, none is left out
    total:      all samples of the threads that work
    waiting, running: in lock primitives, without condition variables
    conditions: waiting for something to happen, which is how a thread without work waits: no contention by itself
    blocked_elsewhere: blocked, but in no lock primitive: I/O, timers, network
    sites, owners: the heaviest first; of the waiting and the running
    condition_sites: the same for the conditions
    """

    rules: str
    total: Tally
    waiting: Tally
    running: Tally
    conditions: Tally
    blocked_elsewhere: Tally
    sites: list[LockSite]
    owners: list[LockSite]
    condition_sites: list[LockSite]
    idle_threads: Count = 0
    idle: Tally = Tally(0, 0)
    schema: int = 1


def read_pmp(directory: Path) -> Pmp:
    """`pmp.json` of a run directory; MeasurementError when it is missing or of another form."""
    return read_json(directory / Files.PMP, Pmp, "what ioflame pmp writes")


def read_locks(directory: Path) -> Locks:
    """`locks.json` of a run directory; MeasurementError when it is missing or of another form."""
    return read_json(directory / Files.LOCKS, Locks, "what ioflame pmp writes")
