"""CPU that we used, and what we started."""

from __future__ import annotations

import contextlib
import os
import resource

from ground.system.descendants import descendants
from ground.system.proc_stat import stat_fields

__all__ = ("own_cpu_seconds",)

_HZ = os.sysconf("SC_CLK_TCK")


def own_cpu_seconds() -> float:
    """Of this process and of all below it, those that run and those that have ended."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    used = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    for pid in descendants([os.getpid()])[1:]:
        with contextlib.suppress(OSError, ValueError):
            fields = stat_fields(f"/proc/{pid}/stat")
            used += sum(int(field) for field in fields[11:15]) / _HZ
    return used
