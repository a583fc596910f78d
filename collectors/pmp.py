"""A poor man's profiler as an observer: one protocol, one file an implementation.

A sampler is a program of its own that speaks the control protocol, and leaves `pmp.sampler.json` and its stacks in the
run directory.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from collectors import pmp_gdb
from collectors.counters import host_gained, host_times
from collectors.pmp_plan import PmpPlan
from ground.errors import MeasurementError
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.off_cpu import OffCpu
from ground.results.pmp import Activity, Pmp
from ground.results.record import HostTimes
from ground.system.atomic_files import write_json
from ground.system.binaries import built_binary
from ground.system.control import ControlledProgram
from ground.system.held_process import HeldProcess
from ground.system.proc_stat import switches
from ground.system.process import Children
from ground.text.ranges import choice

_LATE = 0.05
_LACKING = 0.01
# Of the threads' time; windows of one run differ, and samples of one round may be of one moment.
_STATES_DIFFER = 0.1
_RUNS, _WAITS_IN_KERNEL = ("woken", "preempted"), ("io", "uninterruptible")


class Sampler(Protocol):
    """One way to sample the stacks of a process."""

    @property
    def name(self) -> str: ...

    def describe(self, plan: PmpPlan) -> str:
        """What is attached, in a few words."""

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        """The command line, without the options of the control protocol. HostError where it is not installed."""


class StackSampler:
    """The Rust sampler beside this file: each thread stopped alone, for microseconds."""

    name = "stacksampler"

    def describe(self, plan: PmpPlan) -> str:
        how = "stacks copied, unwound later" if plan.callgraph == "dwarf" else "frame pointers"
        return f"stacksampler, every thread {plan.hz:g} times a second, {how}"

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        return [
            str(built_binary("stacksampler")),
            f"--pid={pid}",
            f"--hz={plan.hz:g}",
            f"--callgraph={plan.callgraph}",
            f"--output={directory / Files.PMP_DATA}",
            f"--stats={directory / Files.PMP_RAW}",
            f"--samples={directory / Files.PMP_SAMPLES}",
        ]


SAMPLERS: dict[str, Sampler] = {sampler.name: sampler for sampler in (StackSampler(), pmp_gdb.Gdb())}


def sampler_named(name: str) -> Sampler:
    return SAMPLERS[choice("--sampler", name, SAMPLERS)]


class Sampling:
    """A sampler on one process (an Observer): its stacks and `pmp.json` are in `directory` once it is detached."""

    kind = "pmp"

    def __init__(self, children: Children, plan: PmpPlan, pid: int, directory: Path, *, turns: bool = False) -> None:
        """turns: take turns, where the sampler can"""
        sampler = sampler_named(plan.sampler)
        self.what = sampler.describe(plan)
        self._children, self._directory, self._pid = children, directory, pid
        self.takes_turns = turns and sampler.name == StackSampler.name
        self._argv = [*sampler.command(plan, pid, directory), *["--turns"] * self.takes_turns]
        self._name = f"pmp {sampler.name}"
        self._program: ControlledProgram | None = None
        self._opened: Moment | None = None
        # At both edges of each turn.
        self._turns: list[tuple[Moment, Moment]] = []

    def attach(self) -> None:
        """Starts the sampler; no thread is stopped yet (gdb: but for its trial)."""
        self._process = HeldProcess(self._pid)
        log = self._directory / Files.PMP_LOG
        mend = f"read {shlex.quote(str(log))}"
        self._program = ControlledProgram(self._children, self._name, self._argv, log, mend=mend)
        self._program.await_ready()

    def open(self) -> None:
        """Begins sampling; returns once the sampler has said so."""
        assert self._program is not None
        self._opened = moment(self._process)
        self._program.open()

    def wait(self, seconds: float) -> None:
        """Lets it sample for so long, or until the process has ended."""
        assert self._program is not None
        self._program.child.wait(seconds)

    def close(self) -> None:
        """Ends sampling; returns once the sampler has said so: no thread is held by it any more."""
        assert self._program is not None and self._opened is not None
        self._program.close()
        self._turns.append((self._opened, moment(self._process)))

    def detach(self) -> None:
        """Waits until the sampler's files are whole, and writes `pmp.json`. Raises what the sampler failed with."""
        if self._program is None or not self._program.finish():
            return
        found = self._raw()
        if self._turns:
            lasting = set.intersection(*(set(one.switches) for turn in self._turns for one in turn))
            samples = {thread.tid: thread.samples for thread in found.threads}
            seen = [samples[tid] for tid in lasting if tid in samples]
            found = replace(
                found,
                activity=activity(self._turns),
                reached_hz=sum(seen) / len(lasting) / found.seconds if lasting and found.seconds else None,
                unseen=len(lasting) - len(seen),
            )
        write_json(self._directory / Files.PMP, found)

    def _raw(self) -> Pmp:
        path = self._directory / Files.PMP_RAW
        try:
            return msgspec.json.decode(path.read_bytes(), type=Pmp)
        except (OSError, msgspec.MsgspecError) as error:
            raise MeasurementError(f"{path} is not what the sampler writes: {error}") from None


@dataclass(frozen=True)
class Moment:
    """The counters at one moment; switches: (voluntary, involuntary) of each thread; ticks in USER_HZ."""

    at: float
    switches: dict[int, tuple[int, int]]
    user_ticks: int
    system_ticks: int
    host: HostTimes


def moment(process: HeldProcess) -> Moment:
    """The counters now; those of a process that is gone are 0."""
    of_threads = {}
    user = system = 0
    with contextlib.suppress(IndexError):
        for tid in process.threads():
            # A thread may end between the listing and the reading.
            with contextlib.suppress(OSError):
                of_threads[tid] = switches(process.path(f"task/{tid}/status"))
        fields = process.stat()
        user, system = int(fields[11]), int(fields[12])
    return Moment(time.monotonic(), of_threads, user, system, host_times())


def activity(turns: Sequence[tuple[Moment, Moment]]) -> Activity:
    """What happened between the moments of each turn. Threads that ended in it are counted until its first only."""
    seconds = max(sum(after.at - before.at for before, after in turns), 1e-9)
    gained = [
        (now[0] - then[0], now[1] - then[1])
        for before, after in turns
        for tid, now in after.switches.items()
        for then in (before.switches.get(tid, (0, 0)),)
    ]
    voluntary = sum(own for own, _ in gained)
    user = sum(max(after.user_ticks - before.user_ticks, 0) for before, after in turns)
    system = sum(max(after.system_ticks - before.system_ticks, 0) for before, after in turns)
    hosts = [host_gained(before.host, after.host) for before, after in turns]
    ticks = sum(host.ticks for host in hosts) or 1
    hz = os.sysconf("SC_CLK_TCK")
    return Activity(
        seconds=seconds,
        switches=voluntary + sum(forced for _, forced in gained),
        voluntary_switches=voluntary,
        user_cpus=user / hz / seconds,
        system_cpus=system / hz / seconds,
        host_switches=sum(host.switches for host in hosts),
        host_user=sum(host.user for host in hosts) / ticks,
        host_system=sum(host.system for host in hosts) / ticks,
    )


def pmp_checks(pmp: Pmp, off: OffCpu | None = None) -> list[Check]:
    """Samples at all, the rate, samples that lack something, the window's end, how long a stop lasted, and whether the
    states are those of the scheduler. off: of another window of the same run"""
    return [*_samples(pmp), *_window(pmp), *_stops(pmp), *(_states(pmp, off) if off is not None else [])]


def _samples(pmp: Pmp) -> Iterator[Check]:
    if not pmp.samples:
        yield Check(
            "pmp samples",
            Verdict.FAILED,
            "none",
            "an empty result: no thread could be stopped, or the process ended before the window",
            "ioflame doctor",
        )
        return
    lacking = pmp.lacking.ended + pmp.lacking.did_not_stop + pmp.lacking.refused
    words = f"{pmp.samples:,} of {len(pmp.threads)} threads"
    if lacking > _LACKING * pmp.samples:
        yield Check(
            "pmp samples", Verdict.WARN, f"{words}; {lacking:,} lack their stack", "threads ended or did not stop"
        )
    else:
        yield Check("pmp samples", Verdict.OK, words)
    planned = pmp.rounds + pmp.late_rounds
    if pmp.is_slow or pmp.unseen or pmp.late_rounds > _LATE * planned:
        yield Check(
            "pmp rate",
            Verdict.WARN,
            f"{pmp.rate_words}; {pmp.late_rounds:,} of {planned:,} rounds left out",
            "a look at all threads lasted too long, or the sampler itself had no CPU: its samples may favour moments "
            "at which it got one; threads without a sample are in no row",
            "a smaller rate, a quieter host",
        )


def _window(pmp: Pmp) -> Iterator[Check]:
    if pmp.cut_short:
        yield Check(
            "pmp window",
            Verdict.FAILED,
            f"{pmp.cut_short} after {pmp.seconds:.1f} s",
            "the window was not sampled to its end: shares and weights are of that time alone",
            "measure again",
        )


def _stops(pmp: Pmp) -> Iterator[Check]:
    if pmp.stop.n:
        held = "the whole process" if pmp.whole_process else "one thread"
        times = f"mean {pmp.stop.mean_ns / 1e3:.0f} us, p99 {pmp.stop.p99_ns / 1e3:.0f} us"
        yield Check(
            "pmp stops", Verdict.OK, f"each cost {held} at most: {times}, longest {pmp.stop.max_ns / 1e3:.0f} us"
        )


def _states(pmp: Pmp, off: OffCpu) -> Iterator[Check]:
    """Samples against the scheduler's events, of all threads."""
    if not pmp.weight_ns or not off.elapsed_ns:
        return
    ns = {name: total.ns for name, total in off.states.items()}
    by_scheduler = {
        "R": off.ran_ns + sum(ns.get(name, 0) for name in _RUNS),
        "D": sum(ns.get(name, 0) for name in _WAITS_IN_KERNEL),
    }
    shares, apart = [], False
    for letter, spent in by_scheduler.items():
        tally = pmp.states.get(letter)
        sampled, seen = (tally.weight_ns if tally else 0) / pmp.weight_ns, spent / off.elapsed_ns
        shares.append(f"{letter} {sampled:.0%} (off-CPU {seen:.0%})")
        between = (sampled + seen) / 2
        chance = 2 * math.sqrt(between * (1 - between) / max(pmp.rounds, 1))
        apart |= abs(sampled - seen) > _STATES_DIFFER + chance
    means = "the sampler's moments are not like all others, or the windows differ: believe off-CPU's states"
    yield Check("pmp states", Verdict.WARN if apart else Verdict.OK, ", ".join(shares), means if apart else "")
