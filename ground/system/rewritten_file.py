"""How often a file was begun anew and closed by whoever writes to it, however short-lived each time was."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import weakref
from pathlib import Path

from ground.errors import HostError
from ground.system.descendants import having_open

# linux/inotify.h
_MODIFY, _CLOSE_WRITE, _CREATE = 0x002, 0x008, 0x100
_EVENT = struct.Struct("iIII")


class RewrittenFile:
    """Follows one file by inotify: the kernel keeps every opening and closing until it is looked at.

    begun:   how often its writing began: with its first line, or by truncating what was there before
    closed:  how often a writer closed it
    """

    def __init__(self, path: Path, writer: int | None = None) -> None:
        """writer: a process that may have it open already. HostError where the kernel follows no more files."""
        self.path = path
        self.begun = self.closed = 0
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _refused(path)
        weakref.finalize(self, os.close, self._descriptor)
        # Of the directory: the file need not be there yet.
        flags = _MODIFY | _CLOSE_WRITE | _CREATE
        if libc.inotify_add_watch(self._descriptor, os.fsencode(path.parent), flags) < 0:
            raise _refused(path)
        if writer is not None and having_open(path, [writer]):
            self.begun = 1

    def look(self) -> None:
        """Takes in what has happened since the last look."""
        name = os.fsencode(self.path.name)
        while events := self._read():
            offset = 0
            while offset < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size
                if events[offset : offset + length].rstrip(b"\0") == name:
                    if mask & _CLOSE_WRITE:
                        # One whose beginning was before the first look at it has begun as well.
                        self.begun = max(self.begun, self.closed + 1)
                        self.closed += 1
                    elif self.begun == self.closed:
                        self.begun += 1
                offset += length

    def _read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self._descriptor, 1 << 16)
        return b""

    @property
    def is_open(self) -> bool:
        """Whether it was begun and not closed, at the last look."""
        return self.begun > self.closed


def _refused(path: Path) -> HostError:
    number = ctypes.get_errno()
    return HostError(
        f"{path.parent} cannot be followed by inotify: {os.strerror(number)}",
        means="when a benchmark begins and ends is not known",
        mend="sudo sysctl fs.inotify.max_user_instances=1024",
    )
