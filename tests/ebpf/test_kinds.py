"""Queries other than Gets: MultiGets, Seeks and named functions, by a stand-in engine and by real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_checks
from ebpf.tail import TailRequest, record_checks
from ground.errors import MeasurementError
from ground.results.query_records import QueryRecord, Recorded
from ioflame.instruments.tail import analyse
from tests.ebpf.conftest import DB_FLAGS, DIRECT
from tests.ebpf.windows import FEW, Standin, failed, ladder_of, nothing_at_all, part_sums, records_of
from tests.ebpf.writers import calls, calls_of, reading_db_bench, writing_client, writing_db_bench
from viz.tables.tail import tail_section
from viz.terminal.table import section_text
from workloads.registry import DEFAULT_ENGINE, engine_named, rules_named

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]

# One that calls MultiGet, and no Get.
multiget = pytest.mark.parametrize("engine", [(4,)], indirect=True)


def recorded(
    engine: Standin, directory: Path, *orders: str, kind: str | None = None, query_symbol: str | None = None
) -> tuple[Recorded, list[QueryRecord]]:
    request = TailRequest(engine.pid, keep="all", kind=kind, query_symbol=query_symbol)
    return records_of(request, directory, engine.orders(*orders), engine)


def text_of(directory: Path, engine: str = DEFAULT_ENGINE) -> str:
    return section_text(tail_section(analyse(directory, rules_named(engine))[0]))


@multiget
def test_every_read_of_a_multiget_has_room_in_its_record(engine: Standin, tmp_path: Path) -> None:
    told, records = recorded(engine, tmp_path, f"10 {FEW}", f"32 {FEW}")
    assert told.kind == "multiget" and told.queries == len(records) == 2 * FEW
    assert {one.reads for one in records} == {10, 32} and told.requests_beyond == 0
    assert all(sum(span.is_request for span in one.spans) == one.reads for one in records)
    # Its own requests: none of them is taken for another thread's.
    sums = part_sums(records)
    assert sums["device"] > 20 * sums["others_device"]
    assert text_of(tmp_path).startswith("Slow MultiGets (process ")


@multiget
def test_of_more_reads_than_a_record_holds_none_is_called_anothers(engine: Standin, tmp_path: Path) -> None:
    told, records = recorded(engine, tmp_path, f"40 {FEW}")
    assert told.requests_beyond == 8 * FEW
    sums = part_sums(records)
    assert sums["unknown_io"] > 20 * sums["others_device"]


@multiget
def test_each_read_call_is_a_query_whoever_makes_it(engine: Standin, tmp_path: Path) -> None:
    told, records = recorded(engine, tmp_path, f"10 {FEW}", f"3 {FEW}", kind="read")
    assert (told.kind, told.query, told.pilot.trap_share) == ("read", [], 0)
    assert told.queries == len(records) == 13 * FEW
    assert {(one.reads, sum(span.is_request for span in one.spans)) for one in records} == {(1, 1)}
    tail = analyse(tmp_path, rules_named(DEFAULT_ENGINE))[0]
    assert section_text(tail_section(tail)).startswith("Slow read calls (process ")
    # Where the disk is fast a thread need not sleep, and has no stack.
    assert {"multiget"} <= {row.name for row in tail.mix} <= {"multiget", "no stack: did not sleep"}


@multiget
def test_a_function_that_is_named_is_the_query(engine: Standin, tmp_path: Path) -> None:
    told, records = recorded(engine, tmp_path, f"3 {FEW}", kind="select", query_symbol="rocksdb::DBImpl::MultiGet")
    # Overloads that call each other are one query.
    assert told.kind == "select" and len(told.query) == 1 and len(records) == FEW
    assert text_of(tmp_path).startswith("Slow selects ")


@multiget
def test_a_query_that_nobody_has_or_calls_is_refused(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"names a query of this name \(no::such\(\.\.\.\)\)") as refused:
        recorded(engine, tmp_path, query_symbol="no::such")
    assert "--query-symbol FUNCTION" in str(refused.value.mend)
    engine.query("stop")
    with pytest.raises(
        MeasurementError, match=r"no query can be followed: not called within 1 s: Get of .*MultiGet was"
    ):
        recorded(engine, tmp_path, kind="get")


def test_a_process_without_queries_is_refused(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no query can be followed"):
        records_of(TailRequest(engine.pid), tmp_path, nothing_at_all)


@pytest.mark.needs("db_bench")
def test_a_multiget_of_db_bench_is_its_reads_one_after_the_other(db: Path, tmp_path: Path) -> None:
    flags = [*DB_FLAGS, *DIRECT, "--multiread_batched=true", "--batch_size=10"]
    with reading_db_bench(db, "multireadrandom", *flags) as pid:
        ladder = ladder_of(LadderRequest(pid, 1), tmp_path, calls(pid, "syscr", 3000))
    assert ladder.kind == "multiget" and any("MultiRead" in watched.name for watched in ladder.reader)
    whole, parts = ladder.of_class("several"), ladder.several
    # A key is a read, but for those whose block is cached or another key's of the same.
    assert parts is not None and 2 * whole.count <= parts.reads <= parts.requests
    assert 0 < whole.count <= ladder.finished and not failed(ladder_checks(ladder))


@pytest.mark.needs("db_bench")
def test_seeks_of_db_bench_are_followed_by_both_instruments(db: Path, tmp_path: Path) -> None:
    reads = tmp_path / "reads"
    reads.mkdir()
    with reading_db_bench(db, "seekrandom", *DB_FLAGS, *DIRECT, "--seek_nexts=20") as pid:
        load = calls(pid, "syscr", 3000)
        ladder = ladder_of(LadderRequest(pid, 1), tmp_path, load)
        told, records = records_of(TailRequest(pid, keep="all"), tmp_path, load)
        before = calls_of(pid, "syscr")
        of_reads, _ = records_of(TailRequest(pid, keep="all", kind="read"), reads, load)
        made = calls_of(pid, "syscr") - before
    (watched,) = ladder.query
    assert ladder.kind == "seek" and watched.name.startswith("rocksdb::DBIter::Seek(")
    # Twenty Nexts read more than one block now and then, after the Seek has returned.
    assert 0 < ladder.outside_reads < 20 * ladder.outside.count
    assert told.kind == "seek" and records and not failed(record_checks(told))
    # What a Next reads is in no Seek: the read calls have it.
    assert of_reads.kind == "read" and of_reads.queries == of_reads.followed <= made
    tail = analyse(reads, rules_named(DEFAULT_ENGINE))[0]
    assert {"seek", "iterate"} <= {row.name for row in tail.mix} and "what for" in section_text(tail_section(tail))
    assert sum(row.tail_share for row in tail.mix) == pytest.approx(1)


# In memory: a disk may be held up for the second in which calls are looked for.
@pytest.mark.needs("db_bench")
@pytest.mark.parametrize("small_disk", ["3g"], indirect=True)
def test_of_a_process_that_only_writes_the_writes_are_followed(small_disk: Path, tmp_path: Path) -> None:
    with writing_db_bench(small_disk / "db", "--threads=2") as pid:
        told, records = records_of(TailRequest(pid, expected=3), tmp_path, calls(pid, "syscw", 1000))
    assert told.kind == "write" and any("Get was not called" in note for note in told.notes) and records
    assert text_of(tmp_path).startswith("Slow writes (process ")


@pytest.mark.parametrize("small_disk", ["3g"], indirect=True)
@pytest.mark.parametrize(("engine", "function"), [("leveldb", "leveldb::DBImpl::Write("), ("lmdb", "mdb_txn_commit")])
def test_writes_of_other_engines_are_followed(small_disk: Path, tmp_path: Path, engine: str, function: str) -> None:
    symbols = engine_named(engine, client="ioflame").file("symbols.toml")
    with writing_client(engine, small_disk / "db", 2) as pid:
        request = TailRequest(pid, keep="all", kind="write", symbols=symbols)
        told, records = records_of(request, tmp_path, calls(pid, "syscw", 300))
    assert [watched.name.startswith(function) for watched in told.query] == [True] and records
    assert text_of(tmp_path, engine).startswith("Slow writes (process ")
