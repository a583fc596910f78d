"""Which names are hashed, and which everybody knows."""

from __future__ import annotations

import re

import pytest

from ground.results.redaction import Redaction

_HASH = "h[0-9a-f]{10}"
_LIBC, _APP = "/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/app/server"


@pytest.mark.parametrize(
    ("frame", "path", "shown"),
    [
        ("ext4_file_read_iter_[k]", "[kernel.kallsyms]", r"ext4_file_read_iter_\[k\]"),
        ("__memmove_avx_unaligned_erms", _LIBC, "__memmove_avx_unaligned_erms"),
        ("je_malloc", "/usr/lib/libjemalloc.so.2", "je_malloc"),
        ("rocksdb::DBImpl::Get", "/usr/lib/librocksdb.so.7.8.3", "rocksdb::DBImpl::Get"),
        ("rocksdb::DBImpl::Get", _APP, "rocksdb::DBImpl::Get"),
        ("rocksdb::BlockIter<app::Key>::Seek", _APP, f"rocksdb::BlockIter<{_HASH}>"),
        ("app::Ledger::balance", _APP, _HASH),
        ("app::Ledger::balance_[i]", _APP, rf"{_HASH}_\[i\]"),
        ("[server]", _APP, rf"\[{_HASH}\]"),
        ("[unknown]", "", r"\[unknown\]"),
        ("memcmp", "/opt/app/libc-of-our-own.so", _HASH),
        ("Interpreter", "/tmp/perf-17.map", _HASH),
    ],
)
def test_names_that_everybody_knows_are_kept(frame: str, path: str, shown: str) -> None:
    redaction = Redaction(files=[r"librocksdb[-\w.]*\.so.*"], frames=["rocksdb::.*"], threads=["rocksdb:low.*"])
    assert re.fullmatch(shown, redaction.frame(frame, path)), redaction.frame(frame, path)
    assert redaction.frame(frame, path) == redaction.frame(frame, path)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/SECRETDIR/libstdc++.so.6", r"libstdc\+\+\.so\.6"),
        ("/SECRETDIR/librocksdb.so.7.8.3 (deleted)", r"librocksdb\.so\.7\.8\.3 \(deleted\)"),
        ("[kernel.kallsyms]", r"\[kernel\.kallsyms\]"),
        ("/SECRETDIR/server", _HASH),
        ("", ""),
    ],
)
def test_of_a_file_that_everybody_knows_its_name_is_kept_and_not_its_directory(path: str, shown: str) -> None:
    redaction = Redaction(files=[r"librocksdb[-\w.]*\.so.*"])
    assert re.fullmatch(shown, redaction.file(path)), redaction.file(path)


def test_threads_of_the_engine_are_kept_and_another_run_has_other_hashes() -> None:
    one, other = (Redaction(threads=["rocksdb:low.*"]) for _ in range(2))
    assert one.thread("rocksdb:low0") == "rocksdb:low0"
    assert one.thread("ledger-writer") == one.thread("ledger-writer") != other.thread("ledger-writer")
    assert "ledger" not in one.thread("ledger-writer")
