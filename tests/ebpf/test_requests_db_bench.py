"""Whose requests are, against what RocksDB itself counts: reads by level, blocks by kind, what a writing one sends."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from tests.ebpf.conftest import Start
from tests.ebpf.requests_window import Seen, reading, seen
from tests.ebpf.writers import calls, reading_db_bench

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "db_bench", "loop")]

_FILES_OF_4_MIB = [
    "--key_size=20", "--value_size=400", "--block_size=8192", "--compression_type=none", "--bloom_bits=10",
    "--cache_index_and_filter_blocks=1", "--target_file_size_base=4194304", "--write_buffer_size=4194304",
]  # fmt: skip
_LEVELS = [
    "--num=50000", "--max_bytes_for_level_base=1048576", "--max_bytes_for_level_multiplier=4",
    "--target_file_size_base=524288", "--write_buffer_size=524288",
]  # fmt: skip
# The lowest of three levels is 2, and compaction leaves all of it there.
_ONE_LEVEL = ["--num=30000", "--num_levels=3", "--max_bytes_for_level_base=1048576"]
_BY_LEVEL = re.compile(r"\*\* Level (\d+) read latency histogram \(micros\):\s+Count: (\d+)")


def db_bench(database: Path, benchmarks: str, *flags: str) -> str:
    argv = ["db_bench", f"--benchmarks={benchmarks}", f"--db={database}", *_FILES_OF_4_MIB, *flags]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def one_level(own_disk: Path) -> Path:
    """All keys in order, in files of level 2: the first 9,000 and more are in its first file."""
    path = own_disk / "one-level"
    db_bench(path, "fillseq,flush,compact", "--disable_wal=1", *_ONE_LEVEL)
    os.sync()  # that nothing of it is written within a window
    return path


def read(place: Path, database: Path, benchmarks: str, *flags: str) -> tuple[Seen, str]:
    """A whole db_bench within the window, its opening of the database too; and what it printed."""
    printed = ""

    def load() -> None:
        nonlocal printed
        existing = ["--use_existing_db=1", "--use_direct_reads=1", "--disable_auto_compactions=1"]
        printed = db_bench(database, benchmarks, *existing, *flags)

    found = seen(place, load, device=database, database=database)
    found.nothing_failed()
    return found, printed


def test_reads_by_level_are_those_that_rocksdb_counts(own_disk: Path, tmp_path: Path) -> None:
    levels = own_disk / "levels"
    # Three levels and more: compaction may leave level 1 empty, so that new files are left in level 0.
    db_bench(levels, "fillrandom,flush,waitforcompaction", "--disable_wal=1", *_LEVELS)
    added = ["--use_existing_db=1", "--writes=2500", "--disable_auto_compactions=1", "--seed=7"]
    db_bench(levels, "overwrite,flush", "--disable_wal=1", *_LEVELS, *added)
    flags = [*_LEVELS, "--cache_size=1048576", "--reads=6000", "--statistics=1", "--stats_level=4"]
    found, printed = read(tmp_path, levels, "readrandom,stats", *flags)
    theirs = {int(level): int(count) for level, count in _BY_LEVEL.findall(printed)}
    assert len(theirs) >= 3 and sum(theirs.values()) > 1000
    for level, count in theirs.items():
        ours = found.count(operation="read", kind="sst", level=level, submitter="process")
        # A read of two extents of its file is two requests.
        assert -found.unseen <= ours - count <= 0.01 * count + 8, (level, ours, count)
    assert found.count(operation="read", kind="sst", level=None) == 0


def test_a_cache_too_small_reads_filter_index_and_data_of_each_key_in_its_file(one_level: Path, tmp_path: Path) -> None:
    flags = [*_ONE_LEVEL[1:], "--num=5000", "--cache_size=4096", "--cache_numshardbits=0", "--reads=2000"]
    found, _ = read(tmp_path, one_level, "readrandom", *flags)
    for part in ("data", "filter", "index"):
        count = found.count(operation="read", kind="sst", holds=part, level=2)
        assert abs(count - 2000) <= 20 + found.unseen, (part, count)
    most = found.attribution.files[0]
    assert most.level == 2 and most.kind == "sst"
    assert most.reads >= 0.98 * sum(row.reads for row in found.attribution.files if row.owner == "database")


def test_all_that_is_written_is_somebody_s_and_the_sums_are_diskstats(
    own_disk: Path, start: Start, tmp_path: Path
) -> None:
    """A db_bench that overwrites with sync, flushes and compacts, while another process reads a file of its own."""
    database, other = own_disk / "written", own_disk / "other"
    other.write_bytes(os.urandom(1 << 20) * 8)
    db_bench(database, "fillrandom,flush,waitforcompaction", "--num=5000")
    os.sync()
    flags = ["--use_existing_db=1", "--num=5000", "--sync=1", "--writes=600", "--write_buffer_size=65536"]
    # The observed process is an unrelated one: the load is recognised by its files alone.
    nobody = start("forever").pid
    with reading(other, 700):
        written = seen(
            tmp_path, lambda: db_bench(database, "overwrite", *flags), device=own_disk, pid=nobody, children=False,
            database=database,
        )  # fmt: skip
    written.nothing_failed()
    kinds = {row.kind for row in written.rows(operation="write", owner="database")}
    assert {"sst", "wal", "manifest"} <= kinds, kinds
    assert written.count(operation="write", owner="file system") > 0
    assert written.traced.diskstats is not None
    for operation in ("read", "write", "flush"):
        inner, outer = (getattr(disk, operation).requests for disk in
                        (written.traced.diskstats.inner, written.traced.diskstats.outer))  # fmt: skip
        # What another CPU is in the middle of may be on either side of an edge.
        counted = written.count(operation=operation)
        assert inner - written.unseen - 8 <= counted <= outer + 8, operation
    # New files have the level that they have then.
    tables = [row for row in written.attribution.files if row.kind == "sst"]
    assert tables and all(row.level is not None for row in tables), [row for row in tables if row.level is None]
    assert {row.level for row in tables} >= {0}
    # Who reads a file of its own is another process.
    row = next(row for row in written.attribution.files if row.name.endswith("/other"))
    assert row.owner == "others" and row.reads > 0
    assert written.count(operation="read", owner="others") >= row.reads
    assert written.count(owner="unknown") <= 0.001 * written.attribution.requests


def test_a_file_that_is_moved_to_the_next_level_has_the_one_that_it_had(own_disk: Path, tmp_path: Path) -> None:
    database = own_disk / "moved"
    # In order, so that no two files of level 0 overlap: a compaction that the engine picks itself moves them.
    db_bench(database, "fillseq,flush", "--disable_wal=1", "--num=40000", "--disable_auto_compactions=1")
    flags = ["--use_existing_db=1", "--use_direct_reads=1", "--num=40000", "--reads=2000"]
    flags += ["--cache_size=8192", "--cache_numshardbits=0"]

    def load() -> None:
        db_bench(database, "readrandom", *flags, "--disable_auto_compactions=1")
        db_bench(database, "waitforcompaction,readrandom", *flags)

    os.sync()
    found = seen(tmp_path, load, device=own_disk, database=database)
    found.nothing_failed()
    before, after = (found.count(operation="read", kind="sst", level=level, holds="data") for level in (0, 1))
    assert before + after >= 3960 - found.unseen
    assert abs(before - 2000) <= 200 and abs(after - 2000) <= 200, (before, after)
    assert found.attribution.moved >= before + after and found.check("moved").verdict is Verdict.NOTE
    assert {row.moved_from for row in found.attribution.files if row.kind == "sst"} == {0}


def test_reads_have_reasons_by_their_stacks(one_level: Path, tmp_path: Path) -> None:
    flags = ["--use_direct_reads=1", "--cache_size=8192", "--cache_numshardbits=0"]
    with reading_db_bench(one_level, "readrandom", *_FILES_OF_4_MIB, *_ONE_LEVEL, *flags) as pid:
        load = calls(pid, "syscr", 4000)
        found = seen(tmp_path, load, device=one_level, pid=pid, children=False, database=one_level, reasons=4)
    found.nothing_failed()
    reads = [row for row in found.attribution.reasons if row.operation == "read"]
    total, of_process = sum(row.requests for row in reads), found.count(operation="read", submitter="process")
    assert total == pytest.approx(of_process, rel=1e-6)
    assert sum(row.requests for row in reads if row.reason == "get") >= 0.9 * total > 0, reads
    # One in four at random: six standard deviations.
    assert abs(sum(row.sampled for row in reads) - of_process / 4) <= 6 * (of_process * 3 / 16) ** 0.5
