"""/proc/self/mountinfo, read in one place (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A file system and where it is; options: its own, among them the controllers of a hierarchy of control groups

    root:   what of it is there: "/" for all, a directory of it where that alone is mounted
    device: its number, as the kernel writes it; the same for each mount of it
    """

    mount_point: Path
    root: str
    device: str
    kind: str
    source: str
    options: tuple[str, ...]

    def shown(self, path: str) -> Path | None:
        """Where a path of the file system is seen; None where this mount does not show it."""
        below = PurePosixPath(path)
        return self.mount_point / below.relative_to(self.root) if below.is_relative_to(self.root) else None


def hierarchies() -> list[Mount]:
    """Of control groups, version 2 first: of each the mount that shows all of it, or the most.

    A part of one is mounted below the root of a container or a chroot, too: groups there are others' own.
    """
    found = [mount for kind in ("cgroup2", "cgroup") for mount in mounts() if mount.kind == kind]
    found.sort(key=lambda mount: (mount.kind != "cgroup2", mount.root != "/", mount.root.count("/")))
    best: dict[str, Mount] = {}
    for mount in found:
        best.setdefault(mount.device, mount)
    return list(best.values())


def mounts() -> Iterator[Mount]:
    """What this process sees, in the order of mounting: of two at one place the later one hides the other."""
    with Path("/proc/self/mountinfo").open("rb") as lines:
        for line in lines:
            # Blanks, tabs and line feeds within a word are octal (\040); other white space is not escaped.
            words = [os.fsdecode(_OCTAL.sub(_byte, word)) for word in line.removesuffix(b"\n").split(b" ")]
            kind, source, options = words[words.index("-") + 1 :]
            yield Mount(Path(words[4]), words[3], words[2], kind, source, tuple(options.split(",")))


def _byte(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])
