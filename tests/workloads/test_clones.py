"""Copies of a tree: data files shared, everything else each process's own, and nothing left of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ground.errors import HostError, UsageError
from workloads.clones import clones
from workloads.database import MANIFEST
from workloads.engines.rocksdb.engine import RocksDB

FILES = ("000012.sst", "000015.sst", "CURRENT", "MANIFEST-000005", "OPTIONS-000007", "000011.log")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    directory = tmp_path / "db"
    directory.mkdir()
    for name in FILES:
        (directory / name).write_text(name)
    (directory / MANIFEST).write_text('{"state": "loaded"}')
    (directory / "ioflame.lock").write_text("1")
    return directory


@pytest.mark.parametrize("link", [True, False])
def test_data_files_are_shared_and_the_rest_is_copied(tree: Path, link: bool) -> None:
    with clones(RocksDB(), tree, ["a", "b"], link=link) as (a, b):
        for copy in (a, b):
            assert {path.name for path in copy.iterdir()} == {*FILES, MANIFEST}
            for path in copy.iterdir():
                shared = path.stat().st_ino == (tree / path.name).stat().st_ino
                assert shared == (link and path.suffix == ".sst")
        (a / "CURRENT").write_text("another")
        (a / "000012.sst").unlink()
        assert (b / "CURRENT").read_text() == (tree / "CURRENT").read_text() == "CURRENT"
        assert (b / "000012.sst").read_text() == "000012.sst"
        place = a.parent
    assert not place.exists()
    assert (tree / "000012.sst").read_text() == "000012.sst"


def test_copies_that_would_fill_the_disk_are_refused(tree: Path) -> None:
    free = os.statvfs(tree)
    os.truncate(tree / "000012.sst", int(free.f_bavail * free.f_frsize * 0.4))  # a hole: nothing is used
    with clones(RocksDB(), tree, ["a", "b"], link=True) as copies:
        assert len(copies) == 2
    refused = r"2 copies of .*/db may grow to .* GiB; .* GiB are free"
    with pytest.raises(HostError, match=refused), clones(RocksDB(), tree, ["a", "b"], link=True, written=True):
        pass
    three = clones(RocksDB(), tree, ["a", "b", "c"], link=False)
    with pytest.raises(HostError, match=r"3 copies of .*/db are .* GiB"), three:
        pass
    assert not tree.with_name("db.arms").exists()


def test_what_a_killed_one_left_is_replaced_and_what_is_not_ours_is_not(tree: Path) -> None:
    left = tree.with_name("db.arms") / "old"
    left.mkdir(parents=True)
    (left / MANIFEST).write_text('{"state": "loaded"}')
    (left.parent / "begun").mkdir()
    with clones(RocksDB(), tree, ["a"], link=True) as (a,):
        assert [path.name for path in a.parent.iterdir()] == ["a"]
    left.mkdir(parents=True)
    (left / "photo.jpg").write_text("mine")
    again = clones(RocksDB(), tree, ["a"], link=True)
    with pytest.raises(UsageError, match="holds old, which ioflame did not make"), again:
        pass
    assert (left / "photo.jpg").read_text() == "mine"
