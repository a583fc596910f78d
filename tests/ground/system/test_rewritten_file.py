"""A file that is written again and again: each time is counted, also those between two looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ground.errors import HostError
from ground.system.rewritten_file import RewrittenFile


def test_each_writing_counts_however_short_and_none_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    file = RewrittenFile(path)
    file.look()
    assert (file.begun, file.closed, file.is_open) == (0, 0, False)
    with path.open("w") as writer:
        writer.write("header\n")
        writer.flush()
        file.look()
        assert (file.begun, file.closed, file.is_open) == (1, 0, True)
    for _ in range(3):  # nobody looks meanwhile
        path.write_text("header\n")
    (tmp_path / "report.csv.old").write_text("another")
    path.read_text()
    file.look()
    assert (file.begun, file.closed, file.is_open) == (4, 4, False)
    with path.open("w") as writer:
        writer.write("header\n")
        writer.flush()
        file.look()
        assert (file.begun, file.closed) == (5, 4)


def test_one_that_is_being_written_when_it_is_found_has_begun_once(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    with path.open("w"):
        file = RewrittenFile(path, os.getpid())
        file.look()
        assert (file.begun, file.closed) == (1, 0)
    file.look()
    assert (file.begun, file.closed) == (1, 1)


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be followed by inotify: No such file"):
        RewrittenFile(tmp_path / "none" / "report.csv")
