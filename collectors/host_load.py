"""What others do on this host, looked at for a second before anything is measured."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from collectors.counters import SECTOR, TICK_NS, Device, disk_counts, host_gained, host_times
from collectors.target_counters import TargetProbe
from ground.results.host_load import HostLoad
from ground.results.record import HostTimes
from ground.system.diskstats import DiskCount, DiskCounts
from ground.system.own_cpu import own_cpu_seconds

_SECONDS, _LOOK_SECONDS = 1.0, 0.05
# What a CPU needs to reach the clock of one that is busy.
_SPIN_SECONDS = 0.05
_CPU = Path("/sys/devices/system/cpu")
_NO_DISK = DiskCounts(*[DiskCount()] * 4)


@dataclass(frozen=True)
class Look:
    """ours_ns: CPU of our own processes and the target's; read_bytes, write_bytes: the target's"""

    at: float
    host: HostTimes
    device: DiskCounts
    ours_ns: float
    read_bytes: int = 0
    write_bytes: int = 0


def host_load(device: Device | None, target: TargetProbe | None = None) -> HostLoad:
    """Takes a second, in which nothing that is measured should have been started yet.

    device: of the database; target: what is to be watched, whose CPU and reads are not those of others
    """
    clock = fastest_clock(_CPU)
    before, runnable = _look(device, target), []
    while time.monotonic() - before.at < _SECONDS:
        time.sleep(_LOOK_SECONDS)
        runnable.append(_runnable() - 1)  # we ourselves run while we look
    after = _look(device, target)
    return load_between(before, after, sum(runnable) / len(runnable), device, clock)


def load_between(
    before: Look, after: Look, runnable: float, device: Device | None, clock: tuple[float, float]
) -> HostLoad:
    """runnable: threads on average; clock: GHz of the fastest CPU, and its highest"""
    seconds, cpus = after.at - before.at, os.cpu_count() or 1
    gained, moved = host_gained(before.host, after.host), after.device.since(before.device)
    others_ns = (gained.user + gained.system) * TICK_NS - (after.ours_ns - before.ours_ns)
    read, own_read = moved.read.sectors * SECTOR, after.read_bytes - before.read_bytes
    written, own_written = moved.write.sectors * SECTOR, after.write_bytes - before.write_bytes
    # What a target has written reaches the device sooner or later, and is no other's.
    read, written = max(read - own_read, 0), written if not own_written else 0
    every = (moved.read.sectors + moved.write.sectors) * SECTOR
    theirs = (read + written) / every if every else 1.0
    return HostLoad(
        seconds,
        cpus,
        max(others_ns, 0) / 1e9 / seconds,
        max(gained.steal, 0) * TICK_NS / 1e9 / seconds,
        max(runnable, 0.0),
        device.name if device is not None else "",
        read / seconds,
        written / seconds,
        theirs * (moved.read.ms + moved.write.ms) / 1e3 / seconds,
        *clock,
    )


def fastest_clock(cpus: Path) -> tuple[float, float]:
    """GHz of the fastest CPU while we keep one busy, and the highest that one can have; zeros where the kernel does not
    say, as in most VMs.

    cpus: /sys/devices/system/cpu
    """
    places = sorted(cpus.glob("cpu[0-9]*/cpufreq"))
    end = time.monotonic() + _SPIN_SECONDS * bool(places)
    while time.monotonic() < end:
        pass
    found = []
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            now, most = (
                int((place / name).read_text(encoding="utf-8")) / 1e6
                for name in ("scaling_cur_freq", "cpuinfo_max_freq")
            )
            found.append((now, most))
    return max(found, default=(0.0, 0.0))


def _look(device: Device | None, target: TargetProbe | None) -> Look:
    begun, host, ended = time.monotonic(), host_times(), time.monotonic()
    at, disk = (begun + ended) / 2, disk_counts(device) if device is not None else _NO_DISK
    ours_ns = 1e9 * own_cpu_seconds()
    if target is None:
        return Look(at, host, disk, ours_ns)
    seen = target.snapshot()
    return Look(at, host, disk, ours_ns + sum(task.cpu_ns for task in seen.tasks.values()), seen.read_bytes,
                 seen.write_bytes)  # fmt: skip


def _runnable() -> int:
    """Threads that run or wait for a CPU now, on all CPUs."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
