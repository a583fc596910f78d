"""Counters of a target, as those of a process: added up over processes and threads that come and go."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from collectors.counters import Device, Snapshot, Task, disk_counts, host_times
from ground.system.diskstats import DiskCount, DiskCounts
from ground.system.held_process import HeldProcess
from ground.system.target import Target

__all__ = ("TargetProbe",)

_NO_DISK = DiskCounts(*[DiskCount()] * 4)
# Of stat: utime, stime, minflt and majflt, and when it began.
_USER, _SYSTEM, _MINOR, _MAJOR, _BEGAN = 11, 12, 7, 9, 19
_HZ = os.sysconf("SC_CLK_TCK")
_OF_IO = ("syscr", "read_bytes", "write_bytes")


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

    What has ended keeps what it was last seen with, and what joins counts from then on: what began while it was watched
    counts whole. What a thread did after the last look before its end is in no counter here.

    group: of a thread, by its process and its own name; device: None where the target has no file on any
    """

    target: Target
    device: Device | None
    group: Callable[[HeldProcess, str], str]
    _threads: dict[int, _Seen] = field(default_factory=dict)
    _processes: dict[int, _Seen] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)
    _began_ticks: int = field(default_factory=lambda: int(time.clock_gettime(time.CLOCK_BOOTTIME) * _HZ))

    def snapshot(self) -> Snapshot:
        begun = time.monotonic_ns()
        self.target.look()
        for process in self.target.processes:
            if process.pid in self._ended:
                continue
            ended = not process.alive
            self._read(process)
            if ended:
                self._ended.add(process.pid)
        sums = [sum(column) for column in zip(*(seen.gained for seen in self._processes.values()), strict=True)]
        user, system, minor, major, calls, read, written = sums or [0] * 7
        device = disk_counts(self.device) if self.device is not None else _NO_DISK
        return Snapshot(
            at_ns=(begun + time.monotonic_ns()) // 2,
            tasks={tid: _task(seen) for tid, seen in self._threads.items()},
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

    def _read(self, process: HeldProcess) -> None:
        """What it has done; nothing of one that is gone, or becomes so."""
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            stat = process.stat()
            io = dict.fromkeys(_OF_IO, "0")
            with contextlib.suppress(OSError):  # another user's
                io = dict(line.split(": ") for line in process.path("io").read_text(encoding="ascii").splitlines())
            values = (*(int(stat[place]) for place in (_USER, _SYSTEM, _MINOR, _MAJOR)), *(int(io[n]) for n in _OF_IO))
            self._note(self._processes, process.pid, values, int(stat[_BEGAN]), "")
        for tid in process.threads():
            with contextlib.suppress(OSError, ValueError, IndexError):
                cpu, wait, _ = process.path(f"task/{tid}/schedstat").read_bytes().split()
                text = process.path(f"task/{tid}/stat").read_bytes()
                status = process.path(f"task/{tid}/status").read_bytes().splitlines()[-2:]
                name, _, rest = text.partition(b"(")[2].rpartition(b")")
                stat = rest.split()
                switches = (int(line.split()[1]) for line in status)
                values = (int(cpu), int(wait), *switches, int(stat[_USER]), int(stat[_SYSTEM]))
                # What a thread is called may change: a group is of the name that it was last seen with.
                group = self.group(process, name.decode("utf-8", "replace"))
                self._note(self._threads, tid, values, int(stat[_BEGAN]), group)

    def _note(self, known: dict[int, _Seen], number: int, values: tuple[int, ...], began: int, name: str) -> None:
        seen = known.get(number)
        if seen is None:
            first = (0,) * len(values) if began >= self._began_ticks else values
            seen = known[number] = _Seen(first, values)
        elif values[0] < seen.last[0]:  # the number is another thread's by now: what the first one did stays
            seen.first = tuple(a - b for a, b in zip(seen.first, seen.last, strict=True))
        seen.last, seen.name = values, name

    def cpu_by_process(self) -> dict[int, int]:
        """Ticks of CPU of each process since it is watched."""
        return {pid: sum(seen.gained[:2]) for pid, seen in self._processes.items()}

    def groups(self) -> dict[str, list[int]]:
        """The tids of each group, all that were seen."""
        found: dict[str, list[int]] = {}
        for tid, seen in self._threads.items():
            found.setdefault(seen.name, []).append(tid)
        return found


_NOTHING = Task(0, 0, 0, 0)


def _task(seen: _Seen) -> Task:
    cpu, wait, voluntary, involuntary, user, system = seen.gained
    return replace(
        _NOTHING, cpu_ns=cpu, wait_ns=wait, voluntary=voluntary, involuntary=involuntary, name=seen.name,
        user_ticks=user, system_ticks=system,
    )  # fmt: skip
