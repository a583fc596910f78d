"""Counters of a target, as those of a process: added up over processes and threads that come and go."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.counters import TICK_NS, Device, Snapshot, Task, disk_counts, host_times
from ground.results.record import ENDED
from ground.system.diskstats import DiskCount, DiskCounts
from ground.system.held_process import HeldProcess
from ground.system.proc_stat import named_fields, named_stat, switches
from ground.system.target import Target

_NO_DISK = DiskCounts(*[DiskCount()] * 4)
# Of stat: parent, faults, ticks of CPU (each its own and those of children that it waited for), and when it began.
_PARENT, _MINOR, _OF_CHILDREN, _MAJOR, _USER, _SYSTEM, _BEGAN = 1, 7, 8, 9, 11, 12, 19
_HZ = os.sysconf("SC_CLK_TCK")
_OF_IO = ("syscr", "read_bytes", "write_bytes")
# The clock of a process's CPU time, of its ended threads too (clock_getcpuclockid(3): CPUCLOCK_SCHED).
_CPU_CLOCK = 2


@dataclass
class _Seen:
    """What a process or a thread had done when it was first seen, and when it was last."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    name: str = ""

    @property
    def gained(self) -> list[int]:
        return [b - a for a, b in zip(self.first, self.last, strict=True)]


@dataclass
class TargetProbe:
    """Reads the counters of all processes of a target and of its device.

    What joins counts from then on, and what began while it was watched counts whole. What threads and processes did
    after the last look at them is in the kernel's sums: of the process, of the parent that waited for it, of the group.

    group: of a thread, by its process and its own name; device: None where the target has no file on any
    lost:  processes that began and ended meanwhile, whose end is in no sum: nobody of the target waited for them
    ignoring: processes that wait for no children (SIGCHLD ignored), where no counter of a group has these
    """

    target: Target
    device: Device | None
    group: Callable[[HeldProcess, str], str]
    lost: int = 0
    ignoring: list[int] = field(default_factory=list)
    _threads: dict[int, _Seen] = field(default_factory=dict)
    _processes: dict[int, _Seen] = field(default_factory=dict)
    _parents: dict[int, int] = field(default_factory=dict)
    _young: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)
    _gone: set[int] = field(default_factory=set)
    # Faults of a parent's ended children when it last had waited for all whose end was seen.
    _had: dict[int, int] = field(default_factory=dict)
    _of_group: int | None = None
    _unseen: Task = field(default_factory=lambda: Task(0, 0, 0, 0, ENDED))
    _began_ticks: int = field(default_factory=lambda: int(time.clock_gettime(time.CLOCK_BOOTTIME) * _HZ))

    def snapshot(self) -> Snapshot:
        begun = time.monotonic_ns()
        self.target.look()
        # Sums before their parts: what is not in the parts is never too much.
        of_group = self.target.group_cpu_ns()
        first = not self._processes
        new = self._read_processes()
        for process in self.target.processes:
            if process.pid in self._ended:
                continue
            ended = not process.alive
            self._read_threads(process)
            if ended:
                self._ended.add(process.pid)
        self._begin({process.pid for process in new} - self._young)
        if first:
            self._of_group = self.target.group_cpu_ns()
            if self._of_group is None:  # their children inherit it
                self.ignoring = [one.pid for one in new if _ignores_children(one)]
        sums = [sum(column) for column in zip(*(seen.gained for seen in self._processes.values()), strict=True)]
        cpu, user, system, minor, major, calls, read, written, _ = sums or [0] * 9
        tasks = {tid: _task(seen) for tid, seen in self._threads.items()}
        user, system = self._note_unseen(tasks.values(), of_group, cpu, user, system)
        if self._unseen.cpu_ns:
            tasks[0] = self._unseen
        device = disk_counts(self.device) if self.device is not None else _NO_DISK
        return Snapshot(
            at_ns=(begun + time.monotonic_ns()) // 2,
            tasks=tasks,
            user_ticks=user,
            system_ticks=system,
            minor_faults=minor,
            major_faults=major,
            read_calls=calls,
            read_bytes=read,
            write_bytes=written,
            device=device,
            host=host_times(),
        )

    def _note_unseen(
        self, tasks: Iterable[Task], of_group: int | None, cpu: int, user: int, system: int
    ) -> tuple[int, int]:
        """What the sums have beyond the threads that were seen; the ticks with what only the group's counter has."""
        known = sum(task.cpu_ns for task in tasks)
        more = 0
        if of_group is not None and self._of_group is not None:
            more = max(of_group - self._of_group - max(cpu, known), 0)
        ticks = more // TICK_NS
        in_user = ticks * user // (user + system) if user + system else ticks
        user, system = user + in_user, system + ticks - in_user
        self._unseen = replace(
            self._unseen,
            cpu_ns=max(self._unseen.cpu_ns, cpu + more - known),
            user_ticks=max(self._unseen.user_ticks, user - sum(task.user_ticks for task in tasks)),
            system_ticks=max(self._unseen.system_ticks, system - sum(task.system_ticks for task in tasks)),
        )
        return user, system

    def _read_processes(self) -> list[HeldProcess]:
        """Takes in all of them. Those that are new."""
        found = self._at_one_moment()
        self._pass_on(found)
        joined = found.keys() - self._processes.keys()
        new = [process for process in self.target.processes if process.pid in joined]
        for pid, values in found.items():
            self._note(self._processes, pid, values, pid in self._young, "")
        return new

    def _at_one_moment(self) -> dict[int, tuple[int, ...]]:
        """Of all that are there: one that is waited for meanwhile would be in its own counters and its parent's."""
        held = [process for process in self.target.processes if process.pid not in self._gone]
        while True:
            found = {process.pid: values for process in held if (values := self._of_process(process)) is not None}
            left = [process for process in held if process.pid in found and process.stat()]
            if len(left) == len(held):
                return found
            held = left

    def _begin(self, joined: Collection[int]) -> None:
        """Those that join count from here on: what their threads did was read before, so no sum is too much.

        A child that has ended since the look is in what its parent begins with, or the kernel threw it away: the
        parent's sum grows by it no more.
        """
        if not joined:
            return
        found = self._at_one_moment()
        begun = found.keys() & joined
        self._processes.update((pid, _Seen(found[pid], found[pid])) for pid in begun)
        ended = self._processes.keys() - self._gone - found.keys()
        self._gone.update(pid for pid in ended if self._heir(pid, ended) in begun)

    def _heir(self, pid: int, ended: Container[int]) -> int:
        """Who has the counters of one that has ended."""
        while (pid := self._parents[pid]) in ended:
            pass
        return pid

    def _of_process(self, process: HeldProcess) -> tuple[int, ...] | None:
        """What it and the children that it has waited for have done, the last of them in faults; None once it is gone.

        The kernel adds the I/O of such children to its own.
        """
        try:
            cpu = time.clock_gettime_ns(~process.pid << 3 | _CPU_CLOCK)
            stat = process.stat()
            own, of_children = ([int(stat[place + more]) for place in (_USER, _SYSTEM)] for more in (0, 2))
            faults = (int(stat[place]) + int(stat[place + 1]) for place in (_MINOR, _MAJOR))
        except (OSError, IndexError):
            return None
        known = self._processes.get(process.pid)
        io: Iterable[int] = known.last[5:8] if known is not None else (0, 0, 0)
        with contextlib.suppress(OSError, KeyError, ValueError):  # another user's
            fields = named_fields(process.path("io"))
            io = [int(fields[name]) for name in _OF_IO]
        self._parents[process.pid] = int(stat[_PARENT])
        if int(stat[_BEGAN]) >= self._began_ticks:
            self._young.add(process.pid)
        ticks = (a + b for a, b in zip(own, of_children, strict=True))
        return (cpu + sum(of_children) * TICK_NS, *ticks, *faults, *io, int(stat[_OF_CHILDREN]))

    def _pass_on(self, found: Mapping[int, tuple[int, ...]]) -> None:
        """What was waited for is in its parent's counters from now on, and no longer beside them.

        found: those that are there. Whether the parent waited, or the kernel threw the counters away (SIGCHLD ignored,
        an orphan), its sum of faults tells: no process is without any.
        """
        gone = self._processes.keys() - self._gone - found.keys()
        self._gone |= gone
        heirs: dict[int, list[int]] = {}
        for pid in gone:
            heirs.setdefault(self._heir(pid, self._gone), []).append(pid)
        for heir, ended in heirs.items():
            if heir in found:
                known = self._processes.get(heir)
                had = self._had.pop(heir, known.last[-1] if known is not None else 0)
                faults = had + sum(self._processes[pid].last[3] for pid in ended)
                if known is not None and found[heir][-1] >= faults:
                    for pid in ended:
                        known.first = tuple(a + b for a, b in zip(known.first, self._processes[pid].last, strict=True))
                    continue
                if known is not None and self._is_waiting(heir, ended, faults):
                    self._gone.difference_update(ended)  # the next look tells
                    self._had[heir] = had
                    continue
            if self.target.alive and self._of_group is None:
                self.lost += len(self._young.intersection(ended))

    def _is_waiting(self, heir: int, ended: Iterable[int], faults: int) -> bool:
        """Whether some are dead and not waited for yet, or were waited for while we looked."""
        if any(Path("/proc", str(pid)).exists() for pid in ended):
            return True
        now = next((self._of_process(one) for one in self.target.processes if one.pid == heir), None)
        return now is not None and now[-1] >= faults

    def _read_threads(self, process: HeldProcess) -> None:
        """What they have done; nothing of one that is gone, or becomes so."""
        for tid in process.threads():
            with contextlib.suppress(OSError, ValueError, LookupError):
                cpu, wait, _ = process.path(f"task/{tid}/schedstat").read_bytes().split()
                name, stat = named_stat(process.path(f"task/{tid}/stat"))
                switched = switches(process.path(f"task/{tid}/status"))
                values = (int(cpu), int(wait), *switched, int(stat[_USER]), int(stat[_SYSTEM]))
                # What a thread is called may change: a group is of the name that it was last seen with.
                group = self.group(process, name)
                self._note(self._threads, tid, values, int(stat[_BEGAN]) >= self._began_ticks, group)

    def _note(self, known: dict[int, _Seen], number: int, values: tuple[int, ...], young: bool, name: str) -> None:
        """young: it began while it was watched"""
        seen = known.get(number)
        if seen is None:
            first = (0,) * len(values) if young else values
            seen = known[number] = _Seen(first, values)
        elif values[0] < seen.last[0]:  # the number is another thread's by now: what the first one did stays
            seen.first = tuple(a - b for a, b in zip(seen.first, seen.last, strict=True))
        seen.last, seen.name = values, name

    def cpu_by_process(self) -> dict[int, int]:
        """Ticks of CPU of each process since it is watched."""
        return {pid: sum(seen.gained[1:3]) for pid, seen in self._processes.items()}

    def groups(self) -> dict[str, list[int]]:
        """The tids of each group, all that were seen."""
        found: dict[str, list[int]] = {}
        for tid, seen in self._threads.items():
            found.setdefault(seen.name, []).append(tid)
        return found


def _ignores_children(process: HeldProcess) -> bool:
    with contextlib.suppress(OSError, KeyError):
        ignored = int(named_fields(process.path("status"))["SigIgn"], 16)
        return bool(ignored >> (signal.SIGCHLD - 1) & 1)
    return False


def _task(seen: _Seen) -> Task:
    cpu, wait, voluntary, involuntary, user, system = seen.gained
    return Task(cpu, wait, voluntary, involuntary, seen.name, user, system)
