"""What an archive may do to the directory it is unpacked into, with tarfile's own filter and without."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from ground.system.unpack import unpack_into


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
