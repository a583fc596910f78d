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

__all__ = ("scratch_directory",)

_NAME = re.compile(r"ioflame-(\d+)-\w+")


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new, empty directory (700) in the system's place for such (TMPDIR), gone at the end of the block.

    A process that is killed cannot remove its own: the next one does. It is locked while its owner lives.
    """
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=f"ioflame-{os.getpid()}-") as name, _locked(Path(name)):
        yield Path(name)


def _remove_left() -> None:
    """Removes our user's directories of processes that have ended."""
    entries: list[Path] = []
    # It may be one that lets nobody list it.
    with contextlib.suppress(OSError):
        entries = list(Path(tempfile.gettempdir()).iterdir())
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        # The lock is taken a moment after the directory is made: until then the number in its name stands for it.
        if match is None or Path("/proc", match[1]).exists():
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
