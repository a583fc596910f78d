"""A bound on the CPU of this process and of all that it starts: a control group of its own."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from ground.system.own_groups import Hierarchy, hierarchy_of, own_name, remove_abandoned

_PERIOD_US = 100_000


@contextlib.contextmanager
def limited_cpus(cpus: float) -> Iterator[str]:
    """Within: we and what we start use at most so many CPUs; why not, or "" where it is so, by others' bound as well.

    The group is below our own, so that the limits of our own group still apply. It is removed at the end; the next
    process removes the group of one that was killed.
    """
    found = hierarchy_of("cpu")
    if found is None:
        yield "no cpu controller is mounted"
        return
    if _least_quota(found) <= cpus:  # a unit's CPUQuota, a container's
        yield ""
        return
    if found.unified and found.own != found.mount:
        # Below the root a group that holds processes has no groups with bounds, and one beside it would leave its unit.
        yield "systemd-run --scope -p CPUQuota=100% makes one"
        return
    group = found.own / own_name()
    remove_abandoned(found.own)
    quota = int(cpus * _PERIOD_US)
    name, value = ("cpu.max", f"{quota} {_PERIOD_US}") if found.unified else ("cpu.cfs_quota_us", f"{quota}")
    try:
        group.mkdir()
        (group / name).write_text(value, encoding="ascii")
        _enter(group)
    except OSError as error:
        _remove(group)
        yield f"{error.strerror}: {error.filename or group}"
        return
    try:
        yield ""
    finally:
        with contextlib.suppress(OSError):
            _enter(found.own)
        _remove(group)


def _least_quota(found: Hierarchy) -> float:
    """CPUs of our group or one above it, the least of them; infinity where none is bounded."""
    least = math.inf
    for group in (found.own, *found.own.parents):
        with contextlib.suppress(OSError, ValueError):
            names = ("cpu.max",) if found.unified else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = " ".join((group / name).read_text(encoding="ascii") for name in names).split()
            if quota not in ("max", "-1"):
                least = min(least, int(quota) / int(period))
        if group == found.mount:
            break
    return least


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _remove(group: Path) -> None:
    with contextlib.suppress(OSError):
        group.rmdir()
