"""Holds a process on some of the machine's CPUs, so that where the scheduler puts it is not part of the result."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ground.errors import UsageError
from ground.settings import Setting
from ground.system.process import tool_path


def check_cpus(text: str) -> str:
    """A list of CPUs as taskset and the kernel write it (`0-3,8`). UsageError where we may not run on all of them."""
    allowed = os.sched_getaffinity(0)
    mend = Setting.CPUS.to(f"<some of {_ranges(sorted(allowed))}, as in 0-3,8>")
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text):
        raise UsageError(f"{Setting.CPUS.to(text)} is no list of CPUs", means="nothing was started", mend=mend)
    for part in text.split(","):
        first, _, last = part.partition("-")
        asked = range(int(first), int(last or first) + 1)
        missing = next((cpu for cpu in asked if cpu not in allowed), None)
        if not asked or missing is not None:
            what = f"{part} is no range" if not asked else f"this process may not run on CPU {missing}"
            raise UsageError(f"{Setting.CPUS.to(text)}: {what}", means="nothing was started", mend=mend)
    return text


def held_on(cpus: str | None, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` on `cpus` alone; taskset replaces itself by the program, the pid stays."""
    return list(argv) if cpus is None else [tool_path("taskset", "util-linux"), "-c", cpus, *argv]


def _ranges(cpus: Sequence[int]) -> str:
    starts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    ends = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
