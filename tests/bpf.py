"""BPF programs that processes hold, by what the kernel says of their open files."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
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


def tries_the_kernel(pid: int) -> bool:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        # One that ends loses its memory, and its command line with it, before it closes its files.
        return not command or b"needs" in command.split(b"\0")
    return True


_BPF, _PROG_GET_FD_BY_ID = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine, 321), 13


def is_loaded(program: int) -> bool:
    attributes = (ctypes.c_uint32 * 4)(program, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(_BPF, _PROG_GET_FD_BY_ID, ctypes.byref(attributes), ctypes.sizeof(attributes))
    if descriptor >= 0:
        os.close(descriptor)
    elif ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), "bpf")
    return bool(descriptor >= 0)
