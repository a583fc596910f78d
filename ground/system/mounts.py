"""/proc/self/mountinfo, read in one place (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ("Mount", "mounts")

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A file system and where it is; options: its own, among them the controllers of a hierarchy of control groups"""

    place: Path
    kind: str
    source: str
    options: tuple[str, ...]


def mounts() -> Iterator[Mount]:
    """What this process sees, in the order of mounting: of two at one place the later one hides the other."""
    with Path("/proc/self/mountinfo").open("rb") as lines:
        for line in lines:
            # Blanks, tabs and line feeds within a word are octal (\040); other white space is not escaped.
            words = [os.fsdecode(_OCTAL.sub(_byte, word)) for word in line.removesuffix(b"\n").split(b" ")]
            kind, source, options = words[words.index("-") + 1 :]
            yield Mount(Path(words[4]), kind, source, tuple(options.split(",")))


def _byte(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])
