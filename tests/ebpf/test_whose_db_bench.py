"""Whose requests are, against what RocksDB itself counts: reads by level, blocks by kind, what a writing one sends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from tests.ebpf.conftest import ONE_READER
from tests.ebpf.whose_window import Seen, seen

pytestmark = [pytest.mark.alone, pytest.mark.needs("co-re", "db_bench")]

_FILES_OF_4_MIB = [
    "--key_size=20", "--value_size=400", "--block_size=8192", "--compression_type=none", "--bloom_bits=10",
    "--cache_index_and_filter_blocks=1", "--target_file_size_base=4194304", "--write_buffer_size=4194304",
]  # fmt: skip
_LEVELS = ["--num=400000", "--max_bytes_for_level_base=8388608", "--max_bytes_for_level_multiplier=4"]
# The lowest of three levels is 2, and compaction leaves all of it there.
_ONE_LEVEL = ["--num=100000", "--num_levels=3", "--max_bytes_for_level_base=1048576"]
_BY_LEVEL = re.compile(r"\*\* Level (\d+) read latency histogram \(micros\):\s+Count: (\d+)")


def db_bench(database: Path, benchmarks: str, *flags: str) -> str:
    argv = ["db_bench", f"--benchmarks={benchmarks}", f"--db={database}", *_FILES_OF_4_MIB, *flags]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of three levels and more: compaction may leave level 1 empty, so that new files are left in level 0."""
    path = tmp_path_factory.mktemp("levels") / "db"
    db_bench(path, "fillrandom,flush,waitforcompaction", "--disable_wal=1", *_LEVELS)
    added = ["--use_existing_db=1", "--writes=20000", "--disable_auto_compactions=1", "--seed=7"]
    db_bench(path, "overwrite,flush", "--disable_wal=1", *_LEVELS, *added)
    return path


@pytest.fixture(scope="module")
def one_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All keys in order, in files of level 2: the first 9,000 and more are in its first file."""
    path = tmp_path_factory.mktemp("one-level") / "db"
    db_bench(path, "fillseq,flush,compact", "--disable_wal=1", *_ONE_LEVEL)
    return path


def read(place: Path, database: Path, benchmarks: str, *flags: str) -> tuple[Seen, str]:
    """A whole db_bench within the window, its opening of the database too; and what it printed."""
    printed = ""

    def load() -> None:
        nonlocal printed
        existing = ["--use_existing_db=1", "--use_direct_reads=1", "--disable_auto_compactions=1"]
        printed = db_bench(database, benchmarks, *existing, *flags)

    found = seen(place, load, database=database)
    found.nothing_failed()
    return found, printed


def test_reads_by_level_are_those_that_rocksdb_counts(levels: Path, tmp_path: Path) -> None:
    flags = [*_LEVELS, "--cache_size=1048576", "--reads=12000", "--statistics=1", "--stats_level=4"]
    found, printed = read(tmp_path, levels, "readrandom,stats", *flags)
    theirs = {int(level): int(count) for level, count in _BY_LEVEL.findall(printed)}
    assert len(theirs) >= 3 and sum(theirs.values()) > 10_000
    for level, count in theirs.items():
        ours = found.count(operation="read", kind="sst", level=level, submitter="process")
        assert abs(ours - count) <= 0.001 * count + 1 + found.unseen, (level, ours, count)
    assert found.count(operation="read", kind="sst", level=None) == 0


def test_keys_of_one_file_are_read_in_that_file(one_level: Path, tmp_path: Path) -> None:
    flags = [*_ONE_LEVEL[1:], "--num=5000", "--cache_size=8192", "--cache_numshardbits=0", "--reads=5000"]
    found, _ = read(tmp_path, one_level, "readrandom", *flags)
    data = found.count(operation="read", owner="database", holds="data")
    first = found.count(operation="read", owner="database", holds="data", level=2)
    assert data >= 4900 - found.unseen and first >= 0.98 * data
    most = found.whose.files[0]
    assert most.level == 2 and most.kind == "sst"
    # Index and filter of that file as well: the cache holds neither.
    assert most.reads >= 0.98 * sum(row.reads for row in found.whose.files if row.owner == "database")


def test_a_cache_too_small_reads_filter_index_and_data_of_each_key(one_level: Path, tmp_path: Path) -> None:
    flags = [*_ONE_LEVEL, "--cache_size=4096", "--cache_numshardbits=0", "--reads=2000"]
    found, _ = read(tmp_path, one_level, "readrandom", *flags)
    for part in ("data", "filter", "index"):
        count = found.count(operation="read", kind="sst", holds=part)
        assert abs(count - 2000) <= 20 + found.unseen, (part, count)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A db_bench that overwrites with sync, flushes and compacts, while another process reads a file of its own."""
    place, database = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("written-db") / "db"
    other = place / "other"
    other.write_bytes(os.urandom(1 << 20) * 8)
    code = (
        "import os, mmap, sys\n"
        "f, b = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)\n"
        "print('reading', flush=True)\n"
        "while True:\n"
        "  for place in range(700): os.preadv(f, [b], place * 8192)\n"
    )
    db_bench(database, "fillrandom,flush,waitforcompaction", "--num=20000")
    with (
        subprocess.Popen([sys.executable, "-c", code, other], stdout=subprocess.PIPE) as reader,
        subprocess.Popen(["sleep", "600"]) as nobody,
    ):
        try:
            assert reader.stdout is not None and reader.stdout.readline() == b"reading\n"
            flags = ["--use_existing_db=1", "--num=20000", "--sync=1", "--writes=3000", "--write_buffer_size=262144"]
            # The observed process is an unrelated one: the load is recognised by its files alone.
            return seen(
                place,
                lambda: db_bench(database, "overwrite", *flags),
                pid=nobody.pid,
                children=False,
                database=database,
            )
        finally:
            reader.kill()
            nobody.kill()


def test_all_that_is_written_is_somebody_s_and_the_sums_are_diskstats(written: Seen) -> None:
    written.nothing_failed()
    assert written.check("coverage").verdict is Verdict.OK
    kinds = {row.kind for row in written.rows(operation="write", owner="database")}
    assert {"sst", "wal", "manifest"} <= kinds, kinds
    assert written.count(operation="write", owner="file system") > 0
    assert written.traced.diskstats is not None
    inner = written.traced.diskstats.inner
    counted = written.count(operation="write")
    assert abs(counted - inner.write.requests) <= 0.001 * inner.write.requests + written.unseen + 8
    assert (
        abs(written.count(operation="flush") - inner.flush.requests)
        <= 0.001 * inner.flush.requests + written.unseen + 4
    )
    size = sum(row.bytes for row in written.rows(operation="write"))
    assert size == pytest.approx(inner.write.sectors * 512, rel=0.001) or written.unseen


def test_who_reads_a_file_of_its_own_is_another_process(written: Seen) -> None:
    row = next(row for row in written.whose.files if row.name.endswith("/other"))
    assert row.owner == "others" and row.reads > 100
    assert written.count(operation="read", owner="others") >= row.reads
    unknown = written.count(owner="unknown")
    assert unknown <= 0.001 * written.whose.requests


def test_new_files_have_the_level_that_they_have_then(written: Seen) -> None:
    tables = [row for row in written.whose.files if row.kind == "sst"]
    assert tables and all(row.level is not None for row in tables), [row for row in tables if row.level is None]
    assert {row.level for row in tables} >= {0}


def test_a_file_that_is_moved_to_the_next_level_has_the_one_that_it_had(tmp_path: Path) -> None:
    database = tmp_path / "db"
    # In order, so that no two files of level 0 overlap: a compaction that the engine picks itself moves them.
    db_bench(database, "fillseq,flush", "--disable_wal=1", "--num=40000", "--disable_auto_compactions=1")
    flags = ["--use_existing_db=1", "--use_direct_reads=1", "--num=40000", "--reads=2000"]
    flags += ["--cache_size=8192", "--cache_numshardbits=0"]

    def load() -> None:
        db_bench(database, "readrandom", *flags, "--disable_auto_compactions=1")
        db_bench(database, "waitforcompaction,readrandom", *flags)

    found = seen(tmp_path, load, database=database)
    found.nothing_failed()
    before, after = (found.count(operation="read", kind="sst", level=level, holds="data") for level in (0, 1))
    assert before + after >= 3960 - found.unseen
    assert abs(before - 2000) <= 200 and abs(after - 2000) <= 200, (before, after)
    assert found.whose.moved >= before + after and found.check("moved").verdict is Verdict.NOTE
    assert {row.moved_from for row in found.whose.files if row.kind == "sst"} == {0}


@pytest.mark.parametrize("reader", [ONE_READER], indirect=True)
def test_reads_have_reasons_by_their_stacks(reader: int, db: Path, tmp_path: Path) -> None:
    # The wait is the window itself.
    found = seen(tmp_path, lambda: time.sleep(1.5), pid=reader, children=False, database=db, reasons=4)
    found.nothing_failed()
    reads = [row for row in found.whose.reasons if row.operation == "read"]
    total = sum(row.requests for row in reads)
    get = sum(row.requests for row in reads if row.reason == "get")
    assert get >= 0.98 * total > 0, reads
    of_process = found.count(operation="read", submitter="process")
    assert total == pytest.approx(of_process, rel=1e-6)
    sampled = sum(row.sampled for row in reads)
    # One in four at random: five standard deviations.
    assert abs(sampled - of_process / 4) <= 5 * (of_process * 3 / 16) ** 0.5
