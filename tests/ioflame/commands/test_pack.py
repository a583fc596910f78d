"""The file of a packed run: what it holds, and what it is not made over."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ground.system.unpack import unpack_into
from ioflame.cli import main
from ioflame.commands import pack
from tests.ioflame.store.stored import made_run


def test_a_run_directory_is_in_it_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path / "runs", 4711)
    out = tmp_path / "run.tar.xz"
    assert main(["pack", str(run.directory), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"there:   ioflame analyse {out.name}" in said
    with tarfile.open(out) as archive:
        unpack_into(archive, tmp_path / "there")
    there = tmp_path / "there" / run.directory.name
    for path in (path for path in run.directory.rglob("*") if path.is_file()):
        assert (there / path.relative_to(run.directory)).read_bytes() == path.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "there", out.name}  # no scratch is left


@pytest.mark.parametrize("name", ["run.zip", "run.tar.xz"])
def test_an_archive_of_another_kind_and_one_that_is_there_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = made_run(tmp_path / "runs", 4711)
    out = tmp_path / name
    out.write_bytes(b"mine")
    assert main(["pack", str(run.directory), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert str(out) in said and ("--force" in said or f"{out}{pack.ENDING}" in said)
    assert out.read_bytes() == b"mine"
