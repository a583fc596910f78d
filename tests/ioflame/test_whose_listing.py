"""The files that `whose` gives requests to: listed before a window and after it, with the inodes of their folders."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ground.errors import UsageError
from ioflame.instruments.whose import listing_of
from workloads.registry import file_kinds, files_reader, rules_named


def test_files_of_both_readings_are_listed_with_their_folders(tmp_path: Path) -> None:
    relations = tmp_path / "base" / "5"
    relations.mkdir(parents=True)
    (relations / "1249").touch()
    (tmp_path / "postgresql.conf").touch()
    begun = time.monotonic_ns()
    before = files_reader("postgresql").stored_files(tmp_path)
    (relations / "1249").unlink()
    (relations / "1250").touch()
    (tmp_path / "pg_wal").mkdir()
    (tmp_path / "pg_wal" / ("0" * 24)).touch()
    found = listing_of(tmp_path, "postgresql", before, begun)
    assert {file.name: file.kind for file in found.files} == {
        "base/5/1249": "relation", "base/5/1250": "relation", "postgresql.conf": "configuration",
        f"pg_wal/{'0' * 24}": "wal",
    }  # fmt: skip
    assert [(folder.path, folder.name) for folder in found.folders] == [
        ("", tmp_path.name), ("base/5", "5"), ("pg_wal", "pg_wal"),
    ]  # fmt: skip
    assert found.folders[1].inode == relations.stat().st_ino
    assert begun == found.begun_ns <= found.ended_ns and found.kinds == file_kinds("postgresql")
    # By a link it is the same folder, under its own name.
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    again = listing_of(tmp_path.parent / f"{tmp_path.name}-link", "postgresql", before, begun)
    assert again.folders == found.folders


def test_files_that_have_other_links_are_listed_with_their_inodes(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "000011.sst").touch()
    (tmp_path / "db" / "000012.log").touch()
    (tmp_path / "000011.sst").hardlink_to(tmp_path / "db" / "000011.sst")
    before = files_reader("leveldb").stored_files(tmp_path / "db")
    found = listing_of(tmp_path / "db", "leveldb", before, 0)
    assert found.linked == {"000011.sst": (tmp_path / "000011.sst").stat().st_ino}


def test_a_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    before = files_reader("postgresql").stored_files(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(UsageError, match="is no directory"):
        listing_of(tmp_path, "postgresql", before, 0)
    tmp_path.mkdir()  # pytest removes it


def test_reasons_are_known_of_engines_that_have_rules_for_them() -> None:
    (rules,) = rules_named("rocksdb").reasons
    assert rules.name == "reasons.toml" and rules_named("lmdb").reasons == ()
    assert file_kinds("rocksdb") and file_kinds("myrocks") == file_kinds("rocksdb")
