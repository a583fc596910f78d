"""Marks behind the names of frames: functions are compared without them."""

from __future__ import annotations

import pytest

from folding.locks import plain_name
from ground.results.frame_marks import MARK
from ground.results.store.ids import canonical_name


@pytest.mark.parametrize("mark", "kij01")
def test_functions_are_compared_without_marks(mark: str) -> None:
    frame = f"org.rocksdb.RocksDB.get_[{mark}]"
    assert MARK.sub("", frame) == canonical_name(frame) == plain_name(frame) == "org.rocksdb.RocksDB.get"


def test_what_looks_like_a_mark_is_a_name() -> None:
    assert canonical_name("f_[2]") == plain_name("f_[2]") == "f_[2]"
