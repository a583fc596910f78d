"""Files: in the page cache, written again and again, of killed commands, and out of an archive."""

from __future__ import annotations

import io
import os
import re
import tarfile
import tempfile
from pathlib import Path

import pytest

from ground.errors import HostError
from ground.system.page_cache import drop_files, keep_files
from ground.system.rewritten_file import RewrittenFile
from ground.system.scratch import scratch_directory
from ground.system.unpack import unpack_into

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


@pytest.fixture(params=["own", "by hand"])
def filtered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by hand":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filter of its own")
    return str(request.param)


def archive_of(path: Path, *members: tuple[str, bytes, dict[str, object]]) -> Path:
    with tarfile.open(path, "w:xz") as made:
        for name, content, fields in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            made.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.usefixtures("filtered")
def test_files_directories_and_links_within_come_out_as_this_users_own(tmp_path: Path) -> None:
    made = archive_of(
        tmp_path / "a.tar.xz",
        ("run", b"", {"type": tarfile.DIRTYPE, "mode": 0o777}),
        ("run/file", b"text", {"uid": 4711, "mode": 0o4666}),
        ("run/link", b"", {"type": tarfile.SYMTYPE, "linkname": "file"}),
    )
    with tarfile.open(made) as archive:
        unpack_into(archive, tmp_path / "there")
    found = tmp_path / "there" / "run"
    assert (found / "link").read_text() == "text"
    state = (found / "file").stat()
    assert (state.st_uid, state.st_mode & 0o7022) == (os.getuid(), 0)


@pytest.mark.usefixtures("filtered")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("../out", {}),
        ("run/../../out", {}),
        ("run/link", {"type": tarfile.SYMTYPE, "linkname": "../../out"}),
        ("run/link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("run/link", {"type": tarfile.LNKTYPE, "linkname": "../out"}),
        ("run/pipe", {"type": tarfile.FIFOTYPE}),
    ],
)
def test_nothing_leads_out_of_it(tmp_path: Path, name: str, fields: dict[str, object]) -> None:
    inner = tmp_path / "in" / "there"
    made = archive_of(tmp_path / "a.tar.xz", (name, b"", fields))
    with tarfile.open(made) as archive, pytest.raises(tarfile.TarError):
        unpack_into(archive, inner)
    assert not (tmp_path / "in" / "out").exists() and not (tmp_path / "out").exists()
