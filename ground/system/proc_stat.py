"""What /proc says of a process in stat, status and io, or below task/TID of a thread (proc_pid_stat(5) and so on).

All of them raise OSError once it is gone.
"""

from __future__ import annotations

import re
from pathlib import Path

_THREADS = 17
_SWITCHES = re.compile(rb"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


def stat_fields(path: str | Path) -> list[bytes]:
    """Fields of stat from the third on, the state."""
    return named_stat(path)[1]


def named_stat(path: str | Path) -> tuple[str, list[bytes]]:
    """The name of it, and these fields."""
    with open(path, "rb") as file:  # noqa: PTH123 - hundreds a second, each of which would make a Path
        # The name before them may hold blanks and brackets: fields count from the last closing one.
        name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    # Between the wait for one that has ended and the end of its directory its parent has its counters already: the
    # kernel shows them here as well at first (X), and then zeros: no parent, no CPU.
    if fields[0] == b"X" or fields[_THREADS] == b"0":
        raise ProcessLookupError(f"{path}: it has ended")
    return name.decode("utf-8", "replace"), fields


def named_fields(path: str | Path) -> dict[str, str]:
    """The value of each name in status or io."""
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        lines = (line.decode("utf-8", "replace").partition(":") for line in file)
        return {name: value.strip() for name, _, value in lines}


def switches(status: str | Path) -> tuple[int, int]:
    """Context switches of a thread, voluntary and involuntary."""
    with open(status, "rb") as file:  # noqa: PTH123 - as above
        voluntary, involuntary = _SWITCHES.findall(file.read())
    return int(voluntary), int(involuntary)
