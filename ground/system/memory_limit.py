"""A bound on the memory of a process and on the page cache that it fills: a control group of its own.

Version 1 (memory.limit_in_bytes) and version 2 (memory.max); Documentation/admin-guide/cgroup-{v1,v2} of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ground.errors import HostError
from ground.settings import Setting
from ground.system.own_groups import hierarchy_of, own_name, remove_abandoned
from ground.text.units import format_bytes


@contextlib.contextmanager
def limited_memory(limit: int) -> Iterator[list[str]]:
    """The words before a command line that run it, and what it starts, in a group of at most `limit` bytes.

    The shell replaces itself by the program, the pid stays. The group is removed at the end, when it has to be empty.
    HostError where there may be none.
    """
    parent, bound = _parent()
    group = parent / own_name()
    remove_abandoned(parent)
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
    found = hierarchy_of("memory")
    if found is None:
        raise _refused("no memory controller is mounted (cgroup version 1 or 2)")
    if not found.unified:
        return found.own, "memory.limit_in_bytes"
    # Below the root a group that holds processes has no groups of its own with bounds: beside ours then.
    return found.own if found.own == found.mount else found.own.parent, "memory.max"


def _refused(why: str) -> HostError:
    return HostError(
        f"no memory limit: {why}",
        means="buffered reads would be answered from a page cache as large as this host's memory; nothing was started",
        mend="run as root where groups may be made ("
        + shlex.join(["mkdir", "/sys/fs/cgroup/memory/x"])
        + f"), or leave {Setting.MEMORY_LIMIT} out, with a {Setting.CONFIG} that reads with O_DIRECT",
    )
