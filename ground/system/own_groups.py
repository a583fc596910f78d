"""Control groups that we make for ourselves (Documentation/admin-guide/cgroup-{v1,v2} of the kernel)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ground.system.mounts import Mount, hierarchies

_NAME = "ioflame-"


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
            return Hierarchy(mount.place, _within(mount, own.get(names, "/")), unified=False)
        if mount.kind == "cgroup2" and controller in _controllers(mount.place):
            return Hierarchy(mount.place, _within(mount, own.get("", "/")), unified=True)
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
    place = mount.shown(own)
    return place if place is not None and place.is_dir() else mount.place


def _controllers(mount: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (mount / "cgroup.controllers").read_text(encoding="ascii").split()
    return []
