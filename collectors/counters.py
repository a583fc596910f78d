"""Counters of a process and its host, read at the edges of a window.

Formats: proc(5) and the kernel's Documentation/scheduler/sched-stats.rst and Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ground.errors import HostError, MeasurementError
from ground.results.record import Counters, HostTimes, RoleCounters
from ground.settings import Setting
from ground.system.diskstats import DiskCounts, disk_stats, whole_disk
from ground.system.mounts import mounts
from ground.system.proc_stat import named_fields, named_stat, stat_fields, switches

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# The role of every thread, of their names by tid and the pid of the process.
Roles = Callable[[Mapping[int, str], int], Mapping[int, str]]
SECTOR = 512  # diskstats counts sectors of 512 bytes whatever the device's own block size


@dataclass(frozen=True)
class Device:
    """A block device as /proc/diskstats names it."""

    major: int
    minor: int
    name: str


@dataclass(frozen=True)
class Task:
    """What a thread has done since it began, or since it is watched; name: the thread's, which gives its role."""

    cpu_ns: int
    wait_ns: int
    voluntary: int
    involuntary: int
    name: str = ""
    user_ticks: int = 0
    system_ticks: int = 0
    write_calls: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All counters at one moment; `at_ns` is CLOCK_MONOTONIC, the middle of the reading."""

    at_ns: int
    tasks: dict[int, Task]
    user_ticks: int
    system_ticks: int
    minor_faults: int
    major_faults: int
    read_calls: int
    read_bytes: int
    write_bytes: int
    device: DiskCounts
    host: HostTimes

    def names(self) -> dict[int, str]:
        """Of the threads, by tid; empty where their roles were not asked for."""
        return {tid: task.name for tid, task in self.tasks.items() if task.name}


def device_of(path: Path) -> Device:
    """The block device that holds `path`, matched by number: never by a name that others share.

    HostError when there is none in /proc/diskstats (a network or memory file system).
    """
    number = path.stat().st_dev
    if os.major(number) == 0:  # btrfs, overlay and the like: ask the mount for its source
        number = _mount_source_number(path) or number
    major, minor = os.major(number), os.minor(number)
    found = disk_stats().get((major, minor))
    if found is not None:
        return Device(major, minor, found.name)
    raise HostError(
        f"{path} is on no block device that /proc/diskstats counts (device {major}:{minor})",
        means="reads of the device cannot be counted",
        mend=Setting.DB_DIR.where_known(Setting.DB_DIR.to("<a directory on a local disk>")),
    )


def _mount_source_number(path: Path) -> int | None:
    real = path.resolve()
    holding = [mount for mount in mounts() if real.is_relative_to(mount.mount_point)]
    source = max(reversed(holding), key=lambda mount: len(mount.mount_point.parts)).source
    with contextlib.suppress(OSError):
        return os.stat(source).st_rdev  # noqa: PTH116 - st_rdev of a device node
    return None


def logical_block_size(device: Device) -> int:
    """Bytes of the device's smallest read; a partition has those of its disk. 512 where the kernel does not say."""
    queue = whole_disk(device.major, device.minor) / "queue"
    with contextlib.suppress(OSError, ValueError):
        return int((queue / "logical_block_size").read_text(encoding="utf-8"))
    return SECTOR


class ProcessProbe:
    """Reads the counters of one process and of the device its database is on. by_thread: also what roles need"""

    def __init__(self, pid: int, device: Device, *, by_thread: bool = False) -> None:
        self._pid = pid
        self._device = device
        self._by_thread = by_thread
        self._proc = Path("/proc") / str(pid)

    def snapshot(self) -> Snapshot:
        """All counters now. MeasurementError when the process is gone."""
        begun = time.monotonic_ns()
        try:
            tasks = self._tasks()
            stat = stat_fields(self._proc / "stat")
            io = named_fields(self._proc / "io")
        except (OSError, ValueError) as error:
            raise MeasurementError(f"process {self._pid} is gone while it was measured ({error})") from None
        device = disk_counts(self._device)
        return Snapshot(
            at_ns=(begun + time.monotonic_ns()) // 2,
            tasks=tasks,
            minor_faults=int(stat[7]),
            major_faults=int(stat[9]),
            user_ticks=int(stat[11]),
            system_ticks=int(stat[12]),
            read_calls=int(io["syscr"]),
            read_bytes=int(io["read_bytes"]),
            write_bytes=int(io["write_bytes"]),
            device=device,
            host=host_times(),
        )

    def minor_faults(self) -> int:
        """Page faults of the process that needed no read; 0 when it is gone."""
        with contextlib.suppress(OSError, IndexError):
            return int(stat_fields(self._proc / "stat")[7])
        return 0

    def read_bytes(self) -> int:
        """Bytes the process has caused to be read from storage; 0 when it is gone."""
        with contextlib.suppress(OSError, KeyError):
            return int(named_fields(self._proc / "io")["read_bytes"])
        return 0

    def _tasks(self) -> dict[int, Task]:
        tasks = {}
        for entry in os.scandir(self._proc / "task"):
            # A thread may end between the listing and the reading; the others still count.
            with contextlib.suppress(OSError):
                cpu, wait, _ = Path(entry.path, "schedstat").read_text(encoding="utf-8").split()
                own = self._of_thread(Path(entry.path)) if self._by_thread else ("", 0, 0, 0)
                voluntary, involuntary = switches(f"{entry.path}/status")
                tasks[int(entry.name)] = Task(int(cpu), int(wait), voluntary, involuntary, *own)
        return tasks

    @staticmethod
    def _of_thread(task: Path) -> tuple[str, int, int, int]:
        """Its name, ticks in user and in kernel mode, and calls of write."""
        name, stat = named_stat(task / "stat")
        return name, int(stat[11]), int(stat[12]), int(named_fields(task / "io")["syscw"])


def host_times() -> HostTimes:
    lines = dict(line.partition(" ")[::2] for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines())
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in lines["cpu"].split()[:8])
    return HostTimes(int(lines["ctxt"]), user + nice, system + irq + softirq, idle, iowait, steal)


def host_gained(before: HostTimes, after: HostTimes) -> HostTimes:
    return HostTimes(*(b - a for a, b in zip(vars(before).values(), vars(after).values(), strict=True)))


def disk_counts(device: Device) -> DiskCounts:
    found = disk_stats().get((device.major, device.minor))
    if found is None:
        raise MeasurementError(f"device {device.name} has left /proc/diskstats")
    return found.counts


def read_counts(device: Device) -> tuple[int, int, int]:
    """Reads completed, sectors of 512 bytes read, and ms that reads took, since boot."""
    read = disk_counts(device).read
    return read.requests, read.sectors, read.ms


def delta(before: Snapshot, after: Snapshot, queries: float | None, roles: Mapping[int, str] | None = None) -> Counters:
    """What the counters gained between two snapshots; `queries` comes from the engine, `roles` are those of tids."""
    zero = Task(0, 0, 0, 0)
    pairs = [(before.tasks.get(tid, zero), task) for tid, task in after.tasks.items()]
    cpu_ns = sum(b.cpu_ns - a.cpu_ns for a, b in pairs)
    user = after.user_ticks - before.user_ticks
    system = after.system_ticks - before.system_ticks
    ticks = user + system
    user_ns = cpu_ns * user // ticks if ticks else 0
    device, host = after.device.since(before.device), host_gained(before.host, after.host)
    return Counters(
        queries=queries,
        storage_reads=device.read.requests,
        storage_read_bytes=device.read.sectors * SECTOR,
        storage_read_ms=device.read.ms,
        process_read_bytes=after.read_bytes - before.read_bytes,
        process_write_bytes=after.write_bytes - before.write_bytes,
        read_calls=after.read_calls - before.read_calls,
        cpu_ns=cpu_ns,
        accounted_ns=ticks * TICK_NS,
        user_ns=user_ns,
        system_ns=cpu_ns - user_ns if ticks else 0,
        runqueue_wait_ns=sum(b.wait_ns - a.wait_ns for a, b in pairs),
        voluntary_switches=sum(b.voluntary - a.voluntary for a, b in pairs),
        involuntary_switches=sum(b.involuntary - a.involuntary for a, b in pairs),
        minor_faults=after.minor_faults - before.minor_faults,
        major_faults=after.major_faults - before.major_faults,
        steal_ns=host.steal * TICK_NS,
        threads_ended=len(before.tasks.keys() - after.tasks.keys()),
        storage_writes=device.write.requests,
        storage_write_bytes=device.write.sectors * SECTOR,
        host=host,
        roles=_by_role(before, after, roles or {}),
    )


def _by_role(before: Snapshot, after: Snapshot, roles: Mapping[int, str]) -> dict[str, RoleCounters]:
    zero = Task(0, 0, 0, 0)
    grouped: dict[str, list[tuple[Task, Task]]] = {}
    for tid, role in roles.items():
        if tid in after.tasks:
            grouped.setdefault(role, []).append((before.tasks.get(tid, zero), after.tasks[tid]))
    found = {}
    for role, pairs in grouped.items():
        cpu_ns = sum(b.cpu_ns - a.cpu_ns for a, b in pairs)
        user = sum(b.user_ticks - a.user_ticks for a, b in pairs)
        system = sum(b.system_ticks - a.system_ticks for a, b in pairs)
        user_ns = cpu_ns * user // (user + system) if user + system else cpu_ns
        calls = sum(b.write_calls - a.write_calls for a, b in pairs)
        found[role] = RoleCounters(cpu_ns, user_ns, cpu_ns - user_ns, calls)
    return found
