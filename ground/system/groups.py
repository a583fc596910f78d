"""Control groups, found by path, by the unit or by the container that they hold (cgroups(7), versions 1 and 2)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ground.errors import UsageError
from ground.system.mounts import hierarchies

_CONTAINER = re.compile(r"[0-9a-f]{12,64}")


def named_group(name: str) -> Path:
    """A directory of a group: a path, absolute or below where groups are mounted, or the name of a unit of systemd.

    UsageError where there is none.
    """
    path = Path(name)
    if path.is_absolute() and (path / "cgroup.procs").exists():
        return path
    for mount in hierarchies():
        if (mount.mount_point / name.lstrip("/") / "cgroup.procs").exists():
            return mount.mount_point / name.lstrip("/")
    return _found(lambda directory: directory == name, f"--cgroup {name}", "systemd-cgls")


def container_group(identity: str) -> Path:
    """The group of a container, of any runtime: they name it by the container's id. UsageError where there is none."""
    if not _CONTAINER.fullmatch(identity):
        raise UsageError(
            f"--container {identity} is no id: 12 to 64 hexadecimal digits",
            means="names are the runtime's own, and it is not asked",
            mend="docker ps --no-trunc, podman ps --no-trunc or crictl ps show ids",
        )
    fits = re.compile(rf"(?:.*[-:])?{identity}[0-9a-f]*(?:\.scope)?")
    return _found(lambda directory: bool(fits.fullmatch(directory)), f"--container {identity}", "docker ps --no-trunc")


def groups_of(pid: int) -> Iterator[Path]:
    """The group that a process is in, of each hierarchy, and those that this one is in; none of one that is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            path = line.split(":", 2)[2]
            for group in filter(None, (mount.shown(path) for mount in hierarchies())):
                # Of another hierarchy there may be a group of that name, too.
                members = group / "cgroup.procs"
                if members.exists() and str(pid) in members.read_text(encoding="ascii").split():
                    yield from (one for one in (group, *group.parents) if (one / "cgroup.procs").exists())


def _found(fits: Callable[[str], bool], asked: str, lists: str) -> Path:
    """The first that fits and holds a process; a group of the same name is in each hierarchy of version 1."""
    for mount in hierarchies():
        for parent, directories, _ in os.walk(mount.mount_point):
            for name in filter(fits, directories):
                group = Path(parent, name)
                if any(file.read_text(encoding="ascii").strip() for file in group.glob("**/cgroup.procs")):
                    return group
    raise UsageError(
        f"{asked}: no control group of that name holds a process", means="nothing was attached", mend=lists
    )
