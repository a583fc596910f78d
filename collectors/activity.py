"""Context switches and CPU of a process and of the host between two moments, shown beside a lock report."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from collectors.counters import host_gained, host_times
from ground.results.pmp import Activity
from ground.results.record import HostTimes
from ground.system.held_process import HeldProcess
from ground.system.proc_stat import switches


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


def between(before: Moment, after: Moment) -> Activity:
    """What happened from one moment to the other. Threads that ended in between are counted until `before` only."""
    seconds = max(after.at - before.at, 1e-9)
    gained = [
        (now[0] - then[0], now[1] - then[1])
        for tid, now in after.switches.items()
        for then in (before.switches.get(tid, (0, 0)),)
    ]
    voluntary = sum(own for own, _ in gained)
    host = host_gained(before.host, after.host)
    ticks = host.ticks or 1
    hz = os.sysconf("SC_CLK_TCK")
    return Activity(
        seconds=seconds,
        switches=voluntary + sum(forced for _, forced in gained),
        voluntary_switches=voluntary,
        user_cpus=max(after.user_ticks - before.user_ticks, 0) / hz / seconds,
        system_cpus=max(after.system_ticks - before.system_ticks, 0) / hz / seconds,
        host_switches=host.switches,
        host_user=host.user / ticks,
        host_system=host.system / ticks,
    )
