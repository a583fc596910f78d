"""The kernel's page cache, of some files and as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ground.errors import HostError

_CHUNK = 4 << 20


def keep_files(files: Iterable[Path]) -> None:
    """Reads these files, so that the kernel keeps of them what there is room for."""
    buffer = bytearray(_CHUNK)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def drop_files(files: Iterable[Path]) -> None:
    """Writes back and drops what the kernel keeps of these files, as anybody may who can read them."""
    for path in files:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def drop_page_cache() -> None:
    """Writes back and drops what the kernel keeps of files: it comes back by itself, so there is nothing to restore."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"the page cache cannot be dropped: {error.strerror}",
            means="the run would start with a warm cache of unknown content",
            mend="run as root, or leave --allow-host-changes out",
        ) from None
