"""Queries other than Gets: MultiGets, Seeks and named functions, by a stand-in engine and by db_bench."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ebpf.tail import TailRequest, record_checks, tail_observer
from ground.errors import MeasurementError
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.ladder import Ladder, read_ladder
from ground.results.query_records import PARTS, Recorded, RecordFile, read_query_records, read_recorded
from ground.system.observer import Observer, attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments.tail import analyse
from tests.ebpf.conftest import DB_FLAGS, DIRECT, Build
from tests.ebpf.test_ladder import Standin
from tests.ebpf.test_tail import reads_of
from tests.ebpf.writers import writing_client
from tests.until import until
from viz.terminal.tail import tail_text
from workloads.registry import DEFAULT_ENGINE, engine_named, rules_named

pytestmark = [pytest.mark.alone, pytest.mark.needs("co-re")]

_FEW = 211
_SECONDS = 3.0


@pytest.fixture
def engine(build: Build, data: Path) -> Iterator[Standin]:
    """One that calls MultiGet, and no Get."""
    engine = Standin(build(4, "-fno-omit-frame-pointer"), data)
    yield engine
    engine.kill()


def recorded(engine: Standin, request: TailRequest, directory: Path, *orders: str) -> tuple[Recorded, RecordFile]:
    engine.order("go")
    with Children() as children:
        observer = tail_observer(request, children, directory)
        with attached(observer, Reporter(quiet=True)):
            engine.query("stop")
            observer.open()
            for order in orders:
                engine.query(order)
            observer.close()
    return read_recorded(directory / Files.RECORDED), read_query_records(directory / Files.QUERY_RECORDS)


def test_every_read_of_a_multiget_has_room_in_its_record(engine: Standin, tmp_path: Path) -> None:
    told, file = recorded(engine, TailRequest(engine.pid, keep="all"), tmp_path, f"10 {_FEW}", f"32 {_FEW}")
    assert told.kind == "multiget" and told.queries == len(file.records) == 2 * _FEW
    assert sorted({one.reads for one in file.records}) == [10, 32]
    assert all(sum(one.parts) == one.ns for one in file.records) and told.uneven == 0
    assert told.requests_beyond == 0
    assert all(sum(span.is_request for span in one.spans) == one.reads for one in file.records)
    # Its own requests: none of them is taken for another thread's.
    sums = dict(zip(PARTS, (sum(ns) for ns in zip(*(one.parts for one in file.records), strict=True)), strict=True))
    assert sums["device"] > 20 * sums["others_device"]
    tail = analyse(tmp_path, rules_named(DEFAULT_ENGINE))[0]
    assert tail_text(tail).startswith("Slow MultiGets (process ")


def test_of_more_reads_than_a_record_holds_none_is_called_anothers(engine: Standin, tmp_path: Path) -> None:
    told, file = recorded(engine, TailRequest(engine.pid, keep="all"), tmp_path, f"40 {_FEW}")
    assert told.requests_beyond == 8 * _FEW
    assert all(sum(one.parts) == one.ns for one in file.records)
    sums = dict(zip(PARTS, (sum(ns) for ns in zip(*(one.parts for one in file.records), strict=True)), strict=True))
    assert sums["unknown_io"] > 20 * sums["others_device"]


def test_each_read_call_is_a_query_whoever_makes_it(engine: Standin, tmp_path: Path) -> None:
    request = TailRequest(engine.pid, keep="all", kind="read")
    told, file = recorded(engine, request, tmp_path, f"10 {_FEW}", f"3 {_FEW}")
    assert (told.kind, told.query, told.pilot.trap_share) == ("read", [], 0)
    assert told.queries == len(file.records) == 13 * _FEW
    # One request each, and the time of the call is its parts.
    assert {(one.reads, sum(span.is_request for span in one.spans)) for one in file.records} == {(1, 1)}
    assert all(sum(one.parts) == one.ns for one in file.records) and told.uneven == 0
    tail = analyse(tmp_path, rules_named(DEFAULT_ENGINE))[0]
    assert tail_text(tail).startswith("Slow read calls (process ")
    # Where the disk is fast a thread need not sleep, and has no stack.
    assert {"multiget"} <= {row.name for row in tail.mix} <= {"multiget", "no stack: did not sleep"}


def test_a_function_that_is_named_is_the_query(engine: Standin, tmp_path: Path) -> None:
    request = TailRequest(engine.pid, keep="all", kind="select", query_symbol="rocksdb::DBImpl::MultiGet")
    told, file = recorded(engine, request, tmp_path, f"3 {_FEW}")
    assert told.kind == "select" and len(file.records) == _FEW
    # Overloads that call each other are one query.
    (watched,) = told.query
    assert watched.name.startswith("rocksdb::DBImpl::MultiGet(") and "bool" not in watched.name
    assert tail_text(analyse(tmp_path, rules_named(DEFAULT_ENGINE))[0]).startswith("Slow selects ")


def test_a_name_that_no_file_has_says_what_would_do(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"names a query of this name \(no::such\(\.\.\.\)\)") as refused:
        recorded(engine, TailRequest(engine.pid, query_symbol="no::such"), tmp_path)
    assert "--query-symbol FUNCTION" in str(refused.value.mend)


def test_asked_for_gets_it_follows_nothing_else(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(
        MeasurementError, match=r"no query can be followed: not called within 1 s: Get of .*MultiGet was"
    ):
        recorded(engine, TailRequest(engine.pid, kind="get"), tmp_path)


Bench = Callable[..., int]


@pytest.fixture
def bench(db: Path) -> Iterator[Bench]:
    """`bench(benchmark, *flags)`: a db_bench that reads with O_DIRECT, once it does; its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(benchmark: str, *flags: str) -> int:
        command = ["db_bench", f"--benchmarks={benchmark}", "--use_existing_db=1", f"--db={db}", "--duration=600"]
        process = subprocess.Popen(
            [*command, *DB_FLAGS, *DIRECT, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.append(process)
        until(lambda: reads_of(process.pid) > 5000, process)
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


def window(observer: Observer) -> None:
    with attached(observer, Reporter(quiet=True)):
        observer.open()
        time.sleep(_SECONDS)  # the window itself
        observer.close()


def ladder_of(pid: int, out: Path) -> Ladder:
    with Children() as children:
        window(ladder_observer(LadderRequest(pid, 1), children, out))
    return read_ladder(out)


@pytest.mark.needs("db_bench")
def test_a_multiget_of_db_bench_is_its_reads_one_after_the_other(bench: Bench, tmp_path: Path) -> None:
    pid = bench("multireadrandom", "--multiread_batched=true", "--batch_size=10")
    ladder = ladder_of(pid, tmp_path / "ladder.json")
    assert ladder.kind == "multiget" and any("MultiRead" in watched.name for watched in ladder.reader)
    whole, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and whole.count > 0.9 * ladder.finished
    assert sum(part.sum_ns for part in parts.parts) == whole.sum_ns
    assert {part.count for part in parts.parts} == {whole.count}
    # A key is a read, but for those whose block is cached or another key's of the same.
    assert 5 < parts.reads / whole.count <= 10.5
    assert parts.requests == pytest.approx(parts.reads, rel=0.05)
    assert not [check for check in ladder_checks(ladder) if check.verdict is Verdict.FAILED]


@pytest.mark.needs("db_bench")
def test_seeks_of_db_bench_are_followed_by_both_instruments(bench: Bench, tmp_path: Path) -> None:
    pid = bench("seekrandom", "--seek_nexts=20")
    ladder = ladder_of(pid, tmp_path / "ladder.json")
    assert ladder.kind == "seek" and [watched.name.partition("(")[0] for watched in ladder.query] == [
        "rocksdb::DBIter::Seek"
    ]
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns
    # Twenty Nexts read more than one block now and then, after the Seek has returned.
    assert 0 < ladder.outside_reads < 20 * ladder.outside.count
    for whole, parts in ladder.with_parts:
        assert sum(part.sum_ns for part in parts.parts) == whole.sum_ns
    with Children() as children:
        window(tail_observer(TailRequest(pid, keep="all"), children, tmp_path))
    told = read_recorded(tmp_path / Files.RECORDED)
    records = read_query_records(tmp_path / Files.QUERY_RECORDS).records
    assert told.kind == "seek" and records and all(sum(one.parts) == one.ns for one in records)
    assert not [check for check in record_checks(told) if check.verdict is Verdict.FAILED]
    # What a Next reads is in no Seek: the read calls have it.
    reads = tmp_path / "reads"
    reads.mkdir()
    before = reads_of(pid)
    with Children() as children:
        window(tail_observer(TailRequest(pid, keep="all", kind="read"), children, reads))
    told = read_recorded(reads / Files.RECORDED)
    assert told.kind == "read" and told.queries == told.followed <= reads_of(pid) - before
    tail = analyse(reads, rules_named(DEFAULT_ENGINE))[0]
    assert {"seek", "iterate"} <= {row.name for row in tail.mix} and "what for" in tail_text(tail)
    assert sum(row.tail_share for row in tail.mix) == pytest.approx(1)


@pytest.mark.needs("db_bench")
def test_of_a_process_that_only_writes_the_writes_are_followed(tmp_path: Path) -> None:
    command = ["db_bench", "--benchmarks=fillrandom", f"--db={tmp_path / 'db'}", "--num=10000000", "--sync=1"]
    writer = subprocess.Popen(
        [*command, "--threads=2", "--duration=600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        calls = Path(f"/proc/{writer.pid}/io")
        until(lambda: int(calls.read_text().partition("syscw: ")[2].split()[0]) > 2000, writer)
        with Children() as children:
            window(tail_observer(TailRequest(writer.pid, expected=_SECONDS), children, tmp_path))
        with (
            pytest.raises(MeasurementError, match=r"not called within 1 s: Get of .* but WriteImpl was"),
            Children() as own,
        ):
            window(tail_observer(TailRequest(writer.pid, kind="get"), own, tmp_path))
    finally:
        writer.kill()
        writer.wait()
    told, records = read_recorded(tmp_path / Files.RECORDED), read_query_records(tmp_path / Files.QUERY_RECORDS).records
    assert told.kind == "write" and any("Get was not called" in note for note in told.notes)
    assert records and all(sum(one.parts) == one.ns for one in records) and told.uneven == 0
    tail = analyse(tmp_path, rules_named(DEFAULT_ENGINE))[0]
    assert tail_text(tail).startswith("Slow writes (process ")


@pytest.mark.parametrize(("engine", "function"), [("leveldb", "leveldb::DBImpl::Write("), ("lmdb", "mdb_txn_commit")])
def test_writes_of_other_engines_are_followed(tmp_path: Path, engine: str, function: str) -> None:
    symbols = engine_named(engine, client="ioflame").file("symbols.toml")
    with writing_client(engine, tmp_path / "db", 2) as pid, Children() as children:
        window(tail_observer(TailRequest(pid, keep="all", kind="write", symbols=symbols), children, tmp_path))
    told, records = read_recorded(tmp_path / Files.RECORDED), read_query_records(tmp_path / Files.QUERY_RECORDS).records
    assert [watched.name.startswith(function) for watched in told.query] == [True]
    assert records and all(sum(one.parts) == one.ns for one in records) and told.uneven == 0
    tail = analyse(tmp_path, rules_named(engine))[0]
    assert tail_text(tail).startswith("Slow writes (process ")
