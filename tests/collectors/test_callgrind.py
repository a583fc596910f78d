"""The command line under which programs are counted: an environment of its own, longer by the padding."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from collectors.callgrind import counting_argv
from collectors.repeatable import ALLOCATORS, allocator_library
from tests.e2e.commands import script


def environment(padding: int, preload: Path | None, tmp_path: Path) -> dict[str, str]:
    """That a program gets in the place of valgrind, in which it is not asked for anything."""
    spy = script(tmp_path / "spy", "pwd > where\ntr '\\0' '\\n' < /proc/self/environ")
    argv = counting_argv(str(spy), ["program", "--flag"], "counts", tmp_path, padding, preload)
    assert argv[-2:] == ["program", "--flag"] and "--callgrind-out-file=counts" in argv
    printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    return dict(line.split("=", 1) for line in printed.splitlines())


def test_nothing_of_our_environment_reaches_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKSDB_ANYTHING", "1")
    short, long = (environment(padding, None, tmp_path) for padding in (0, 1024))
    assert "ROCKSDB_ANYTHING" not in short and short.keys() == long.keys()
    assert {name: len(long[name]) - len(short[name]) for name in short if long[name] != short[name]} == {
        "IOFLAME_PADDING": 1024
    }


def test_an_allocator_is_preloaded_and_gives_nothing_back_by_time(tmp_path: Path) -> None:
    assert ALLOCATORS[0] == "jemalloc" and allocator_library("libc") is None
    found = environment(0, Path("/no/such/libjemalloc.so"), tmp_path)
    assert found["LD_PRELOAD"] == "/no/such/libjemalloc.so"
    assert found["MALLOC_CONF"] == "dirty_decay_ms:-1,muzzy_decay_ms:-1"
