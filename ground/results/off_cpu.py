"""Time off the CPU, in the run queue, and the wall clock they make up: what the eBPF room writes and others read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ground.results.checks import Check, Verdict
from ground.results.histogram import Histogram
from ground.results.ranges import Amount, Count, Turn, Windowed
from ground.system.atomic_files import json_reader

# What a thread waits in that has nothing to do: nobody delays it.
_WITHOUT_WORK = ("condition", "join", "futex", "sleep")
# Beyond this the parts do not make up the whole, and something was not seen.
_TOLERANCE = 0.02
# What a thread's beginning and end may be off by, each.
_EDGES_NS = 1_000_000
# What its programs miss by their nature, as a share of all waits; an error above that.
_BPFTRACE_LOSES = 0.1


@dataclass(frozen=True)
class StateTotal:
    """Time of all threads in one state (ns), and how many stretches it was."""

    ns: Count
    count: Count


@dataclass(frozen=True)
class Thread(Windowed):
    """One thread's part of the window.

    start_ns, end_ns: CLOCK_MONOTONIC, within the window; started, ended: whether that is its own beginning or end
    ran_ns:  from each switch-in to the next switch-out
    cpu_ns:  CPU time by the scheduler (schedstat). Above `ran_ns` where wake-ups find an idle CPU: the scheduler then
             counts the thread as running from its wake-up on, before it is switched in. None where it ended unseen
    off_ns:  by state; ran_ns + all of off_ns = life_ns
    lived_ns: from its beginning to its end, without what lies between turns; None in files of before there were any
    """

    tid: Count
    comm: str
    start_ns: Count
    end_ns: Count
    started: bool
    ended: bool
    ran_ns: Count
    cpu_ns: Count | None
    off_ns: dict[str, Count]
    voluntary: Count
    involuntary: Count
    lived_ns: Count | None = None

    @property
    def life_ns(self) -> int:
        return self.end_ns - self.start_ns if self.lived_ns is None else self.lived_ns

    @property
    def is_idle(self) -> bool:
        """In the states of a thread without work 99 % of its time, and off its CPU less than 10 times a second: a
        pool's thread, a main thread that waits for others. One that waits for a CPU, a lock or a disk is not."""
        without_work = sum(self.off_ns.get(state, 0) for state in _WITHOUT_WORK)
        return (self.life_ns - without_work) * 100 < self.life_ns and self.voluntary * 1e8 < self.life_ns


@dataclass(frozen=True)
class StackFacts:
    """What became of the stacks.

    different: stacks kept; cut: of those, cut at the kernel's limit of 127 frames
    lost_ns:   time whose stack could not be kept: in the totals, and under `[lost stack]`
    before_ns: time of threads that were blocked before the programs were attached: kernel frames from /proc, no callers
    """

    different: Count
    cut: Count
    lost_ns: Count
    before_ns: Count


@dataclass(frozen=True)
class OffCpu(Windowed):
    """`offcpu.json`: one process over one window.

    start_ns, end_ns: CLOCK_MONOTONIC; turns: those within, where it was watched in turns
    process_ended_ns: when its last thread ended, where none was left at the end
    losses:           by kind; all 0 in a sound window
    recording:        where the stacks are; None where none were asked for
    kernel_symbols:   whether kernel functions have names
    """

    backend: str
    pid: Count
    start_ns: Count
    end_ns: Count
    process_ended_ns: Count | None
    waker: bool
    states: dict[str, StateTotal]
    threads: list[Thread]
    stacks: StackFacts
    losses: dict[str, Count]
    kernel_symbols: bool
    recording: str | None = None
    turns: list[Turn] = field(default_factory=list)
    schema: int = 1

    @property
    def elapsed_ns(self) -> int:
        """The threads' time within the window, added up."""
        return sum(thread.life_ns for thread in self.threads)

    @property
    def ran_ns(self) -> int:
        return sum(thread.ran_ns for thread in self.threads)

    @property
    def cpu_ns(self) -> int:
        """CPU time by the scheduler, of the threads it is known of."""
        return sum(thread.cpu_ns or 0 for thread in self.threads)

    @property
    def off_ns(self) -> int:
        return sum(total.ns for total in self.states.values())

    def _uneven_threads(self) -> list[tuple[float, str, int]]:
        """Threads whose parts are not their whole, as (share, comm, tid), the most uneven first."""
        # A sum that had no room is no thread's any more.
        if self.losses.get("lost_sum"):
            return []
        lives: dict[int, list[Thread]] = {}
        for thread in self.threads:
            lives.setdefault(thread.tid, []).append(thread)
        found = []
        for tid, same in lives.items():
            whole = sum(thread.life_ns for thread in same)
            parts = sum(thread.ran_ns + sum(thread.off_ns.values()) for thread in same)
            if abs(parts - whole) > max(_TOLERANCE * whole, _EDGES_NS):
                found.append((parts / whole if whole else 0.0, same[-1].comm, tid))
        return sorted(found, key=lambda one: -abs(one[0] - 1))

    def checks(self) -> Iterator[Check]:
        """What a reader must know before believing the figures."""
        if self.elapsed_ns == 0:
            yield Check("off-CPU: threads", Verdict.FAILED, "no threads", "the process ended before the window")
            return
        parts = (self.ran_ns + self.off_ns) / self.elapsed_ns
        words = f"{parts:.2%} of {self.elapsed_ns / 1e9:.3f} s in {len(self.threads)} threads"
        uneven = self._uneven_threads()
        if uneven:
            share, comm, tid = uneven[0]
            words += f"; {share:.2%} of {comm} ({tid})'s" + f", and {len(uneven) - 1} more" * (len(uneven) > 1)
        sound = abs(parts - 1) <= _TOLERANCE and not uneven
        yield Check(
            "on-CPU + off-CPU",
            Verdict.OK if sound else Verdict.FAILED,
            words,
            "" if sound else "events were not seen: the figures are wrong",
        )
        # Without a stack time is whole, and a switch-in that was missed is worked out.
        lost = {name: count for name, count in self.losses.items() if count and name not in ("no_stack", "missed_in")}
        if lost:
            yield Check(
                "off-CPU: losses",
                Verdict.FAILED if lost.keys() - {"lost_stack", "lost_sum"} else Verdict.WARN,
                ", ".join(f"{name} {count:,}" for name, count in lost.items()),
                f"{self.stacks.lost_ns / 1e9:.3f} s are under [lost stack]; totals hold unless threads were lost",
            )
        if self.stacks.cut:
            yield Check(
                "off-CPU: stacks",
                Verdict.WARN,
                f"{self.stacks.cut} of {self.stacks.different} reach 127 frames",
                "their outer frames are missing",
                "sysctl kernel.perf_event_max_stack does not help here: the program's limit is 127",
            )
        if not self.kernel_symbols:
            yield Check(
                "off-CPU: kernel symbols",
                Verdict.WARN,
                "hidden",
                "kernel frames have no names, and the tracer's own are among them",
                "sudo sysctl kernel.kptr_restrict=0",
            )
        if self.process_ended_ns is not None:
            before = (self.end_ns - self.process_ended_ns) / 1e9
            yield Check("process", Verdict.NOTE, f"pid {self.pid} ended {before:.1f} s before the window did")


@dataclass(frozen=True)
class OffStack:
    """Time of one thread off its CPU at one place.

    frames: root first, without the thread's name; kernel frames end in `_[k]`. A waker's frames follow `[woken by]`
    category: of the rules' owner view; a waker's frames decide nothing
    """

    tid: int
    comm: str
    state: str
    frames: tuple[str, ...]
    ns: Count
    count: Count
    category: str = "other"


@dataclass(frozen=True)
class RunQueue(Windowed):
    """Waits for a CPU of one process's threads.

    backend, how: `co-re` or `bpftrace`, and what of it is less than exact
    waits: `woken`, `preempted` and `started` (threads created): each until it has a CPU
    voluntary, involuntary: context switches, as /proc/PID/status counts them
    """

    backend: str
    pid: Count
    start_ns: Count
    end_ns: Count
    waits: dict[str, Histogram]
    voluntary: Count
    involuntary: Count
    losses: dict[str, Count]
    how: str = ""
    turns: list[Turn] = field(default_factory=list)
    schema: int = 1

    def checks(self) -> Iterator[Check]:
        waits = sum(wait.count for wait in self.waits.values())
        # One wait for each thread may have begun before the programs were attached.
        unseen = {name: count for name, count in self.losses.items() if count and name != "no_start"}
        if self.losses.get("no_start", 0) > waits / 100 + 64:
            unseen["no_start"] = self.losses["no_start"]
        if not waits:
            yield Check(
                "run-queue waits", Verdict.FAILED, "no wait was seen", "the process did nothing, or no event came"
            )
        if unseen:
            stated = self.backend == "bpftrace" and sum(unseen.values()) <= _BPFTRACE_LOSES * waits
            yield Check(
                "run-queue waits: losses",
                Verdict.WARN if stated else Verdict.FAILED,
                ", ".join(f"{name} {count:,}" for name, count in unseen.items()),
                "as many waits are missing",
            )
        elif waits:
            yield Check("run-queue waits", Verdict.OK, f"{waits:,} waits, none lost")


@dataclass(frozen=True)
class WallRow:
    """A part of the wall clock.

    state:    `on-CPU`, a state of STATES, or `idle threads`
    category: of the rules' owner view; "" where a state is not split
    ns:       of all threads; us_per_query: None where queries are not known
    """

    state: str
    category: str
    ns: Count
    us_per_query: Amount | None = None


@dataclass(frozen=True)
class WallClock:
    """`wallclock.json`: elapsed time x threads, by what the threads were about.

    elapsed_ns: of the threads that are not idle; the rows add up to it, but for `unseen_ns`
    idle_ns:    time of idle threads (`Thread.is_idle`), which is not in the rows; idle_threads: how many
    background_ns: the same of threads that work and serve no query; background_threads: how many
    ran_ns:     on a CPU, switch-in to switch-out, split by perf's owner categories where a profile is there
    cpu_ns:     the same by schedstat; None where a thread's was not known
    queries:    within the window
    """

    elapsed_ns: Count
    threads: Count
    idle_ns: Count
    idle_threads: Count
    ran_ns: Count
    cpu_ns: Count | None
    queries: Amount | None
    rows: list[WallRow] = field(default_factory=list)
    background_ns: Count = 0
    background_threads: Count = 0
    schema: int = 1

    @property
    def unseen_ns(self) -> int:
        return self.elapsed_ns - sum(row.ns for row in self.rows)


read_off_cpu = json_reader(OffCpu)
read_run_queue = json_reader(RunQueue)
read_wall_clock = json_reader(WallClock)
