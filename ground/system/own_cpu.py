"""CPU that we used, and what we started."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence

from ground.system.descendants import descendants
from ground.system.proc_stat import stat_fields

_HZ = os.sysconf("SC_CLK_TCK")


def own_cpu_seconds(besides: Sequence[int] = ()) -> float:
    """Of this process and of all below it, those that run and those that have ended.

    besides: children that run, which with all below them are not counted: a command of the user's
    """
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    used = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    others = set(descendants(besides)) if besides else set()
    for pid in descendants([os.getpid()])[1:]:
        if pid in others:
            continue
        with contextlib.suppress(OSError, ValueError):
            fields = stat_fields(f"/proc/{pid}/stat")
            used += sum(int(field) for field in fields[11:15]) / _HZ
    return used
