"""A process held on to by its directory in /proc: once it has ended, whoever gets its number is not taken for it."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import time
import weakref
from pathlib import Path
from typing import BinaryIO

from ground.errors import MeasurementError, UsageError
from ground.system.proc_stat import stat_fields

# The same on every architecture (include/uapi/asm-generic/unistd.h, linux/openat2.h).
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.0005
# States of a thread that does nothing: stopped, traced, ended.
_STILL = (b"T", b"t", b"Z", b"X")


class HeldProcess:
    """A running process. UsageError where there is none of that number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        descriptors: list[int] = []
        weakref.finalize(self, _close, descriptors)
        try:
            descriptors.append(os.pidfd_open(pid))
            descriptors.append(os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY))
        except (OSError, OverflowError):  # no process has a number that large
            raise _none(pid) from None
        self._handle, directory = descriptors
        # Reads below it fail once the process is gone.
        self._directory = f"/proc/self/fd/{directory}"
        # The two may be of different processes; one that is there still has had the number all the time.
        if not self.alive:
            raise _none(pid)

    def path(self, name: str) -> Path:
        """`/proc/PID/name` of this process and no other, for this process of ours to read."""
        return Path(f"{self._directory}/{name}")

    def open_inside(self, path: str) -> BinaryIO:
        """A file as this process sees it, below its root. OSError where there is none.

        Links on the way lead to where they lead for the process, never to a file of ours (RESOLVE_IN_ROOT of
        openat2(2), Linux 5.6); the last name must be no link, and a pipe keeps nobody waiting.
        """
        import ctypes  # only where something is opened so: it takes a while

        root = os.open(f"{self._directory}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            how = (ctypes.c_uint64 * 3)(flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
            libc = ctypes.CDLL(None, use_errno=True)
            opened = libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        finally:
            os.close(root)
        if opened < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return os.fdopen(opened, "rb")

    def stat(self, tid: int | None = None) -> list[bytes]:
        """Fields of stat(5) from the third on; empty once it is gone."""
        try:
            return stat_fields(f"{self._directory}/{'stat' if tid is None else f'task/{tid}/stat'}")
        except OSError:
            return []

    @property
    def alive(self) -> bool:
        """False for a zombie, too; but its first thread may end before the others, and looks like one then."""
        ended = select.poll()
        ended.register(self._handle, select.POLLIN)
        return not ended.poll(0)

    def threads(self) -> list[int]:
        try:
            return sorted(int(entry.name) for entry in self.path("task").iterdir())
        except OSError:
            return []

    def stop(self) -> None:
        """Stops it (SIGSTOP) and returns once all its threads are stopped, or it has ended.

        MeasurementError where a thread does not stop: it waits for a dead disk. SIGSTOP and not a frozen cgroup:
        whatever ends ioflame and its supervisor, the kernel sends a stopped process group that is orphaned SIGHUP and
        SIGCONT, while a frozen cgroup would stay frozen for ever.
        """
        deadline = time.monotonic() + _STOP_SECONDS
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGSTOP)
        while moving := [tid for tid in self.threads() if (self.stat(tid) or [b"T"])[0] not in _STILL]:
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"{len(moving)} of {len(self.threads())} threads of process {self.pid} did not stop within "
                    f"{_STOP_SECONDS:.0f} s",
                    means="they wait for the kernel, as for a disk that does not answer",
                    mend=f"cat /proc/{self.pid}/task/{moving[0]}/stack",
                )
            time.sleep(_LOOK_SECONDS)

    def go_on(self) -> bool:
        """Lets it run again after `stop`; False where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGCONT)
        return self.alive

    def send(self, signum: signal.Signals) -> None:
        """ProcessLookupError once it has ended."""
        signal.pidfd_send_signal(self._handle, signum)


# PID_MAX_LIMIT of 64-bit kernels. kernel.pid_max may be lower, and have been lowered since a process began.
_MOST = 1 << 22


def process_number(text: str) -> int:
    """The argument of a `--pid`: a number that a process can have. ArgumentTypeError for what is none."""
    # In ASCII: int() takes signs, blanks, underscores and the digits of other scripts.
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process; ps -e lists them")
    if len(text) > 20 or not 0 < int(text) <= _MOST:
        raise argparse.ArgumentTypeError(
            f"there is no process {text:.40}: numbers of processes are 1 to {_MOST}; ps -e lists them"
        )
    return int(text)


def _none(pid: int) -> UsageError:
    return UsageError(f"there is no process {pid}", mend="--pid <a running process; see ps>")


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
