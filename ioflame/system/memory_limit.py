"""A bound on the memory of a process and on the page cache that it fills: a control group of its own.

Version 1 (memory.limit_in_bytes) and version 2 (memory.max); Documentation/admin-guide/cgroup-{v1,v2} of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ioflame.errors import HostError
from ioflame.text.units import format_bytes

__all__ = ("limited_memory",)

_NAME = "ioflame-"


@contextlib.contextmanager
def limited_memory(limit: int) -> Iterator[list[str]]:
    """The words before a command line that run it, and what it starts, in a group of at most `limit` bytes.

    The shell replaces itself by the program, the pid stays. The group is removed at the end, when it has to be empty.
    HostError where there may be none.
    """
    parent, bound = _parent()
    group = parent / f"{_NAME}{os.getpid()}"
    _remove_abandoned(parent)
    try:
        group.mkdir()
        (group / bound).write_text(f"{limit}\n", encoding="ascii")
        kept = int((group / bound).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise _refused(f"{group} with {bound}={limit}: {error}") from None
    try:
        # The kernel counts pages: what it keeps may be a page less.
        if not limit - os.sysconf("SC_PAGE_SIZE") <= kept <= limit:
            raise _refused(f"{group / bound} holds {kept}, {limit} ({format_bytes(limit)}) was written")
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def _parent() -> tuple[Path, str]:
    """The directory in which a group can be made, and the file of its bound."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines())
    for words in mounts:
        mount, kind, options = Path(words[4]), words[words.index("-") + 1], words[-1].split(",")
        if kind == "cgroup" and "memory" in options:
            return _within(mount, own.get("memory", "/")), "memory.limit_in_bytes"
        if kind == "cgroup2" and "memory" in _controllers(mount):
            # Below the root a group that holds processes has no groups of its own with bounds: beside ours then.
            return _within(mount, own.get("", "/")).parent if own.get("", "/") != "/" else mount, "memory.max"
    raise _refused("no memory controller is mounted (cgroup version 1 or 2)")


def _within(mount: Path, own: str) -> Path:
    """Our own group where this mount shows it, else its top."""
    place = mount / own.lstrip("/")
    return place if place.is_dir() else mount


def _controllers(mount: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (mount / "cgroup.controllers").read_text(encoding="ascii").split()
    return []


def _remove_abandoned(parent: Path) -> None:
    """Groups of ioflames that were killed: those that still hold a process stay."""
    for group in parent.glob(f"{_NAME}*"):
        pid = group.name.removeprefix(_NAME)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _refused(why: str) -> HostError:
    return HostError(
        f"no memory limit: {why}",
        means="buffered reads would be answered from a page cache as large as this host's memory; nothing was started",
        mend="run as root where groups may be made ("
        + shlex.join(["mkdir", "/sys/fs/cgroup/memory/x"])
        + "), or leave MEMORY_LIMIT out, with a CONFIG that reads with O_DIRECT",
    )
