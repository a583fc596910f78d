"""LevelDB and LMDB all the way from the load to the report, and RocksDB by the client that drives them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from folding.stackfold import stackfold_binary
from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.ladder import read_ladder
from ground.results.pmp import read_locks
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import held, measured, wait_for
from tests.e2e.explained import assert_explained
from tests.until import until
from workloads.registry import engine_named
from workloads.scales import scales

# Where the CPU of a Get has to be seen, and what none of them does.
_ROWS = {
    "leveldb": ({"libc+k", "checksm", "IBI+DBI:Sk", "LRU", "bloom"}, {"compaction", "WAL", "decomp"}),
    "lmdb": ({"page search"}, {"commit", "update", "fault:write"}),
    "rocksdb": ({"libc+k", "checksm", "IBI:Sk", "LRU"}, set()),
}


@pytest.mark.long
@pytest.mark.needs("perf", "db_bench")
@pytest.mark.parametrize("engine", ["rocksdb", "leveldb", "lmdb"])
def test_an_engine_is_profiled_by_our_client(engine: str, tmp_path: Path) -> None:
    collect = "perf ladder pmp" if engine != "rocksdb" else "perf"
    words = [f"--engine={engine}", "--client=ioflame", "--scale=smoke", "--duration=2", "--num-keys=100k"]
    words += ["--cache-size=1M", f"--db-dir={tmp_path}/db"]
    # Of RocksDB each row has samples, however slow the disk is. Of the others `auto` takes copied stacks, too, where a
    # second of them is not lost on a busy host.
    words += ["--config=iobuf"] if engine == "rocksdb" else ["--callgraph=dwarf", "--duration=4", "--freq=499"]
    run = measured(tmp_path / "runs", "profile", *words, f"--collect={collect}").run
    record = run.record
    assert (record.engine, record.missing, record.options["client"]) == (engine, [], "ioflame")
    assert_explained(record, *words)
    assert record.engine_result["found"] == record.engine_result["reads"] > 0
    rates = engine_named(engine, client="ioflame").parse_report(
        run.path("ioflame-client.report.csv").read_text("utf-8")
    )
    # It was asked to end within a second, which has no line.
    assert record.engine_result["operations"] >= sum(rates) > 0

    # Frame pointers are enough for RocksDB alone; with either, stacks reach the thread's start.
    assert record.profile is not None
    assert record.profile.callgraph == ("fp" if engine == "rocksdb" else "dwarf")
    assert record.profile.incomplete_weight < record.profile.weight * 0.1
    weights = {row.name: row.weight for row in read_categories(run.directory).rows}
    seen, never = _ROWS[engine]
    assert all(weights[name] > 0 for name in seen), weights
    assert all(weights[name] == 0 for name in never), weights
    assert weights["other"] < sum(weights.values()) * 0.6
    leaves = {row.name: row.weight for row in read_categories(run.directory, "leaf").rows}
    # On a busy host none of its samples may be in a leaf of the client's own.
    assert leaves["client"] < sum(leaves.values()) / 4

    if engine != "rocksdb":
        # Symbols and lock primitives are data of the engine: a query is followed from its first function on.
        ladder = read_ladder(run.path(Files.LADDER))
        assert (ladder.start, [function.calls > 0 for function in ladder.query]) == ("query", [True])
        assert ladder.query[0].name.startswith({"leveldb": "leveldb::DBImpl::Get(", "lmdb": "mdb_get("}[engine])
        assert 0 < ladder.followed <= ladder.queries and ladder.threads == 1
        assert read_locks(run.directory).total.samples > 0


@pytest.mark.long
@pytest.mark.needs("perf")
def test_windows_that_are_late_have_the_queries_of_our_client(ioflame: Ioflame, tmp_path: Path) -> None:
    size = ["--scale=smoke", "--duration=2", "--num-keys=20k", "--cache-size=1M", "--engine=leveldb", "--collect=perf"]
    process = ioflame.start("profile", *size, f"--db-dir={tmp_path}/db", f"--out={tmp_path}/runs")
    wait_for(process, "rounds of")
    (run,) = (tmp_path / "runs").iterdir()
    planned = scales()["smoke"].warmup + 3 * 2 + 10
    with held(process):
        # As on a host that is too busy for whoever watches: longer than all windows were planned to take.
        report = run / "ioflame-client.report.csv"
        until(lambda: len(report.read_text().splitlines()) > planned, process, every=0.2)
    _, err = process.communicate(timeout=300)
    record = open_run(run).record
    assert record.missing == [], err
    assert {window.kind for window in record.windows} == {"warm-up", "plain", "perf"}
    assert all(window.counters.queries for window in record.windows)
    assert record.engine_result["found"] == record.engine_result["reads"] > 0


_OWNED = {
    "leveldb": [
        (
            "leveldb::DBImpl::Get;leveldb::TableCache::Get;leveldb::TableCache::FindTable;"
            "leveldb::(anonymous namespace)::ShardedLRUCache::Lookup",
            "table cache",
        ),
        (
            "leveldb::Table::InternalGet;leveldb::Table::BlockReader;"
            "leveldb::(anonymous namespace)::ShardedLRUCache::Lookup",
            "LRU",
        ),
        ("leveldb::Table::InternalGet;leveldb::Block::Iter::Seek", "IBI+DBI:Sk"),
        ("leveldb::Table::BlockReader;leveldb::ReadBlock;leveldb::crc32c::Extend", "checksm"),
        ("leveldb::Table::BlockReader;leveldb::ReadBlock;asm_exc_page_fault_[k]", "fault"),
        ("start_thread;leveldb::DBImpl::BackgroundCall;leveldb::ReadBlock;leveldb::crc32c::Extend", "compaction"),
        ("leveldb::DBImpl::Write;leveldb::log::Writer::AddRecord;leveldb::crc32c::Extend", "WAL"),
    ],
    "lmdb": [
        (
            "mdb_get;mdb_cursor_set;mdb_page_search;mdb_node_search;asm_exc_page_fault_[k];handle_mm_fault_[k]",
            "fault:tree",
        ),
        ("mdb_get;mdb_cursor_set;mdb_page_search;mdb_node_search", "page search"),
        ("mdb_get;mdb_cursor_set;mdb_node_search", "node search"),
        ("mdb_put;mdb_cursor_put;mdb_page_touch;asm_exc_page_fault_[k]", "fault:write"),
        ("ioflame_client::run::Worker::run;asm_exc_page_fault_[k]", "fault:client"),
        ("mdb_txn_commit;mdb_page_flush;pwrite", "commit"),
    ],
}


@pytest.mark.parametrize("engine", _OWNED)
def test_a_stack_is_of_the_row_that_owns_it(engine: str) -> None:
    rules = engine_named(engine).file("categories.toml")
    argv = [str(stackfold_binary()), "categories", "--rules", str(rules), "--format", "stacks"]
    given = "".join(f"reader 0;{stack} {place}\n" for place, (stack, _) in enumerate(_OWNED[engine], 1))
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = {weight: category for category, _, _, weight, _ in rows}
    assert found == {str(place): category for place, (_, category) in enumerate(_OWNED[engine], 1)}
