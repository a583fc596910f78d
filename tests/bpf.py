"""BPF programs that processes hold, by what the kernel says of their open files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path


def _open_files(pids: Iterable[int]) -> Iterator[str]:
    for pid in pids:
        for file in Path(f"/proc/{pid}/fdinfo").glob("*"):
            # One that is closed meanwhile, or whose process ends, holds nothing.
            with contextlib.suppress(OSError):
                yield file.read_text(encoding="ascii")


def programs_of(pids: Iterable[int]) -> set[int]:
    """Numbers of the BPF programs that these processes hold."""
    return {
        int(number) for told in _open_files(pids) for number in re.findall(r"^prog_id:\s*(\d+)", told, re.MULTILINE)
    }


def is_attached(pid: int) -> bool:
    """Whether it has a program attached to something; libbpf tries the kernel by programs that it never attaches."""
    return any("link_id:" in told for told in _open_files([pid]))
