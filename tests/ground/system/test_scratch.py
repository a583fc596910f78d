"""Directories of killed commands: gone with the next command, whoever has their owner's number by then."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

from ground.system.scratch import scratch_directory


def test_a_number_that_came_round_again_keeps_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_directory() as place:
        named = re.fullmatch(r"ioflame-(\d+)-(\d+)-(\w+)", place.name)
        assert named is not None and int(named[1]) == os.getpid()
    assert not place.exists()
    # Of a process with our pid that began a tick earlier, and of a running one that has not locked its own yet.
    earlier = tmp_path / f"ioflame-{named[1]}-{int(named[2]) - 1}-{named[3]}"
    ours = tmp_path / f"ioflame-{named[1]}-{named[2]}-{named[3]}"
    for path in (earlier, ours):
        path.mkdir()
    with scratch_directory():
        assert not earlier.exists() and ours.exists()
