"""Directories for what is needed only while a command runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ground.system.proc_stat import stat_fields

_NAME = re.compile(r"ioflame-(\d+)-(\d+)-\w+")


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new, empty directory (700) in the system's place for such (TMPDIR), gone at the end of the block.

    A process that is killed cannot remove its own: the next one does. It is locked while its owner lives.
    """
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=scratch_prefix()) as name, _locked(Path(name)):
        yield Path(name)


def scratch_prefix() -> str:
    """How the name of a directory begins that goes with the next command once this process has ended.

    The process's number alone would not do: numbers come round again, and a directory would stay for as long as another
    process has its owner's.
    """
    return f"ioflame-{os.getpid()}-{_began(os.getpid())}-"


def _began(pid: int) -> str | None:
    """When a process was started, in clock ticks since boot; None where it is no more."""
    try:
        return stat_fields(Path(f"/proc/{pid}/stat"))[19].decode()
    except OSError:
        return None


def _remove_left() -> None:
    """Removes our user's directories of processes that have ended."""
    entries: list[Path] = []
    # It may be one that lets nobody list it.
    with contextlib.suppress(OSError):
        entries = list(Path(tempfile.gettempdir()).iterdir())
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        # The lock is taken a moment after the directory is made: until then the numbers in its name protect it.
        if match is None or _began(int(match[1])) == match[2]:
            continue
        # Locked: its owner's number is of another pid namespace. A link, or another user's: not for us to touch.
        with contextlib.suppress(OSError), _locked(entry) as held:
            if os.fstat(held).st_uid == os.geteuid():
                shutil.rmtree(entry, ignore_errors=True)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """Within: nobody else has it locked. OSError where somebody has, or it is no directory."""
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield held
    finally:
        os.close(held)
