"""What a request was sent for, by its stack: the rules of an engine on stacks of perf script."""

from __future__ import annotations

from pathlib import Path

import pytest

from folding.reasons import fold_reasons
from workloads.registry import rules_named

_STACKS = {
    1: "rocksdb::DBIter::Seek(rocksdb::Slice const&)",
    2: "rocksdb::DBIter::Next()",
    3: "rocksdb::CompactionJob::Run()",
    4: "own_reader()",
    5: "rocksdb::CompactedDBImpl::MultiGet(rocksdb::ReadOptions const&, unsigned long)",
    6: "rocksdb::DBImplReadOnly::Get(rocksdb::ReadOptions const&)",
}


def test_each_stack_has_the_reason_of_its_engine(tmp_path: Path) -> None:
    recording = tmp_path / "stacks.txt"
    samples = [
        f"reader {number} [000] {number}.000000: 1000 cpu-clock:\n"
        "\t2000 pread64 (/usr/lib/libc.so.6)\n"
        f"\t1000 {frame} (/usr/lib/librocksdb.so.7.8)\n"
        for number, frame in _STACKS.items()
    ]
    recording.write_text("\n".join(samples))
    reasons, labels = fold_reasons(recording, tmp_path / "reasons.json", rules_named("rocksdb").reasons[0])
    assert reasons == {1: "seek", 2: "iterate", 3: "compaction", 4: "other", 5: "multiget", 6: "get"}
    assert labels["seek"].startswith("iterators: Seek") and labels["iterate"].startswith("iterators: Next")


@pytest.mark.parametrize("engine", ["leveldb", "lmdb"])
def test_engines_without_such_rules_have_no_file_of_them(engine: str) -> None:
    assert rules_named(engine).reasons == ()
