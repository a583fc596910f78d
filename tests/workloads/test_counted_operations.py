"""What can be counted of each engine, as its data file says."""

from __future__ import annotations

import pytest

from ground.errors import UsageError
from workloads.counted_operations import CountedPlan, counted_plan
from workloads.registry import engine_named


def plan(engine: str) -> CountedPlan:
    return counted_plan(engine, engine_named(engine, client="ioflame").file("."))


@pytest.mark.parametrize("engine", ["rocksdb", "leveldb", "lmdb"])
def test_each_engine_has_operations_on_trees_that_are_there(engine: str) -> None:
    found = plan(engine)
    operations = found.of([])
    assert {"get", "get-miss", "seek", "put", "delete"} <= {one.name for one in operations}
    for one in operations:
        assert not one.like
        assert one.tree in {"", *found.tree}
        words = found.operation_words(one)
        assert words[0] == f"--benchmarks={one.benchmarks}" and one.counted_benchmark in one.benchmarks
        names = [word.partition("=")[0] for word in words]
        assert len(set(names)) == len(names) and "--num" in names
        # The client says how many there were, or the file does.
        assert one.operations or one.per == "operation"
    for name in found.tree:
        assert found.tree_words(name)[0].startswith("--benchmarks=fill")


def test_what_is_like_another_adds_to_its_flags() -> None:
    found = plan("rocksdb")
    plain, compressed = found.of(["compaction", "compaction-lz4"])
    assert (plain.root, plain.operations, plain.view) == (compressed.root, compressed.operations, compressed.view)
    assert (plain.tree, compressed.tree) == ("unsorted", "unsorted_lz4")
    assert "--compression_type=none" in found.operation_words(plain)
    assert "--compression_type=lz4" in found.operation_words(compressed)
    assert "--compression_type=lz4" in found.tree_words("unsorted_lz4")
    # The tree's number of keys is that of the operations on it.
    assert "--num=60000" in found.operation_words(compressed)


@pytest.mark.parametrize("engine", ["rocksdb", "leveldb", "lmdb"])
def test_workloads_are_those_of_the_engine(engine: str) -> None:
    """A workload that was renamed would be counted no more, without a word."""
    known = engine_named(engine).workloads()
    told = {workload for one in plan(engine).operation for workload in one.workloads}
    assert told <= set(known) and "readrandom" in told
    assert plan(engine).of_workload("readrandom")[0] == "get"


def test_a_workload_that_no_operation_does_is_refused() -> None:
    with pytest.raises(UsageError, match="does what revrange does") as refused:
        plan("rocksdb").of_workload("revrange")
    assert refused.value.mend.startswith("--operation get|")


def test_an_unknown_operation_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="--operation=got is not known") as refused:
        plan("lmdb").of(["get", "got"])
    assert refused.value.mend == "--operation=get|get-miss|seek|put|delete"
