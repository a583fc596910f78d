"""Files that are dropped from the page cache, and files that are kept there."""

from __future__ import annotations

import os
from pathlib import Path

from ground.system.page_cache import drop_files, keep_files

PART = 1 << 20


def cached(path: Path) -> bool:
    """A read that must not wait for the disk is answered."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(PART)], 4 * PART, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False


def test_files_are_dropped_alone_and_kept_whole(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for path in (mine, other):
        path.write_bytes(os.urandom(9 * PART))
        assert cached(path)
    drop_files([mine])  # what was not yet written is written first
    assert (cached(mine), cached(other)) == (False, True)
    keep_files([mine])
    assert cached(mine)
