"""Bounds on CPU and memory of what we start: control groups of our own.

Versions 1 and 2; Documentation/admin-guide/cgroup-{v1,v2} of the kernel.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ground.errors import HostError
from ground.settings import Setting
from ground.system.mounts import Mount, hierarchies
from ground.text.units import format_bytes

_NAME = "ioflame-"
_PERIOD_US = 100_000


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


@dataclass(frozen=True)
class Hierarchy:
    """Where a controller is: mount, and the group there that holds us; unified: of version 2"""

    mount: Path
    own: Path
    unified: bool


def hierarchy_of(controller: str) -> Hierarchy | None:
    """None where the controller is not mounted, in version 1 or 2."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines())
    for mount in hierarchies():
        if mount.kind == "cgroup" and controller in mount.options:
            names = next((names for names in own if controller in names.split(",")), "")
            return Hierarchy(mount.mount_point, _within(mount, own.get(names, "/")), unified=False)
        if mount.kind == "cgroup2" and controller in _controllers(mount.mount_point):
            return Hierarchy(mount.mount_point, _within(mount, own.get("", "/")), unified=True)
    return None


def own_name() -> str:
    """Of a group of this process's."""
    return f"{_NAME}{os.getpid()}"


def remove_abandoned(parent: Path) -> None:
    """Groups of ioflames that were killed: those that still hold a process stay."""
    for group in parent.glob(f"{_NAME}*"):
        pid = group.name.removeprefix(_NAME)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _within(mount: Mount, own: str) -> Path:
    """Our own group where this mount shows it, else its top."""
    group = mount.shown(own)
    return group if group is not None and group.is_dir() else mount.mount_point


def _controllers(mount: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (mount / "cgroup.controllers").read_text(encoding="ascii").split()
    return []


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
