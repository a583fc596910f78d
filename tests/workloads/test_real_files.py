"""Files of real databases: what we read of them against what RocksDB's own tools say, and while an engine writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ground.results.stored_files import StoredFile, StoredFiles
from ground.text.progress import Reporter
from tests.e2e.test_services import done
from tests.until import until
from tests.workloads.test_our_client import client
from workloads.engines.rocksdb.log_events import logged_tables
from workloads.engines.rocksdb.manifest import Edits, current_manifest
from workloads.registry import engine_named
from workloads.release_cache import ReleaseCache
from workloads.releases import older

ROCKSDB = engine_named("rocksdb")
COMMON = ["--num=60000", "--key_size=16", "--value_size=100", "--bloom_bits=10", "--write_buffer_size=524288"]
COMMON += ["--target_file_size_base=262144", "--max_bytes_for_level_base=1048576", "--threads=1", "--seed=7"]
COMMON += ["--max_background_jobs=2", "--compression_type=none", "--histogram=false"]
# What db_bench is to make, and a part that its tables have by it.
SHAPES = {
    "plain": ([], "filter"),
    "old footer": (["--format_version=0"], "filter"),
    "first format": (["--format_version=2", "--bloom_bits=-1"], "index"),
    "partitions": (["--partition_index_and_filters=true", "--metadata_block_size=512"], "filter"),
    "dictionary": (["--compression_type=zstd", "--compression_max_dict_bytes=4096"], "dictionary"),
    "tombstones": (
        ["--range_tombstone_width=10", "--writes_per_range_tombstone=50", "--max_num_range_tombstones=1000000"],
        "tombstones",
    ),
    "hash index": (["--use_hash_search=true", "--prefix_size=8", "--allow_concurrent_memtable_write=false"], "index"),
    "aligned": (["--block_align=true", "--format_version=4"], "filter"),
    "families": (["--num_column_families=3"], "filter"),
    "blobs": (["--enable_blob_files=true", "--min_blob_size=0", "--enable_blob_garbage_collection=true"], "filter"),
}


def db_bench(folder: Path, benchmarks: str, *flags: str) -> list[str]:
    given = {word.partition("=")[0]: word for word in (*COMMON, *flags)}
    return ["db_bench", f"--db={folder}", f"--benchmarks={benchmarks}", *given.values()]


def dumped(manifest: Path) -> tuple[dict[int, tuple[int, int, str]], str]:
    """`ldb manifest_dump`: of each file that is there its level, size and column family; and all that it printed."""
    argv = ["ldb", "manifest_dump", f"--path={manifest}", "--verbose", "--hex"]
    text = subprocess.run(argv, capture_output=True, check=True).stdout.decode("utf-8", "replace")
    found, level, family = {}, -1, ""
    for line in text.splitlines():
        if heading := re.match(r'-+ Column family "(.+)"  \(ID', line):
            family = heading[1]
        elif heading := re.match(r"--- level (\d+) --- version", line):
            level = int(heading[1])
        elif file := re.match(r" (\d+):(\d+)\[", line):
            found[int(file[1])] = level, int(file[2]), family
    return found, text


def levels_of(files: StoredFiles) -> dict[int, tuple[int | None, str]]:
    """Of those that have a level."""
    tables = [file for file in files.files if file.kind == "sst" and file.level is not None]
    return {int(file.name.partition(".")[0]): (file.level, file.column_family) for file in tables}


def handle(text: str) -> tuple[int, int]:
    """Offset and end, without the trailer, of a handle in hexadecimal digits: two varints."""
    values, shift, value = [], 0, 0
    for byte in bytes.fromhex(text):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            shift, value = 0, 0
    return values[0], values[0] + values[1]


@pytest.mark.long
@pytest.mark.needs("db_bench", "ldb")
@pytest.mark.parametrize("shape", SHAPES)
def test_files_are_those_of_ldb_of_sst_dump_and_of_log(tmp_path: Path, shape: str) -> None:
    """Of a database that was overwritten until levels filled."""
    flags, part = SHAPES[shape]
    folder = tmp_path / "db"
    done(db_bench(folder, "fillrandom,overwrite", *flags))
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.iterdir())}
    read = ROCKSDB.stored_files(folder)
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.iterdir())}
    assert read.notes == ()
    levels_and_edits_are_those_of_ldb(folder, read)
    tables = [file for file in read.files if file.kind == "sst"]
    assert len(tables) > 3 and all(file.sections for file in tables)
    assert part in {section.holds for file in tables for section in file.sections}
    for file in tables[:4] + tables[-4:]:
        parts_are_where_sst_dump_finds_them(file, Path(shutil.copy(folder / file.name, tmp_path)))
    log_says_of_tables_what_their_ends_say(folder, tables, hashed=shape == "hash index")


def levels_and_edits_are_those_of_ldb(folder: Path, read: StoredFiles) -> None:
    found, text = dumped(current_manifest(folder))
    assert levels_of(read) == {number: (level, family) for number, (level, _, family) in found.items()}
    assert len({level for level, _, _ in found.values()}) >= 2, "levels filled"
    edits = list(Edits(current_manifest(folder)))
    assert len(edits) == len(re.findall(r"^VersionEdit \{", text, re.MULTILINE)) > 20
    added = [(new.level, new.number, new.size) for edit in edits for new in edit.added]
    assert added == [tuple(map(int, one)) for one in re.findall(r"^  AddFile: (\d+) (\d+) (\d+) ", text, re.MULTILINE)]
    deleted = [pair for edit in edits for pair in edit.deleted]
    assert deleted == [tuple(map(int, one)) for one in re.findall(r"^  DeleteFile: (\d+) (\d+)", text, re.MULTILINE)]
    assert [n for edit in edits for n in edit.blobs] == [
        int(one) for one in re.findall(r"BlobFileAddition: blob_file_number: (\d+)", text)
    ]


def parts_are_where_sst_dump_finds_them(file: StoredFile, copy: Path) -> None:
    done(["sst_dump", "--command=raw", f"--file={copy}"])
    raw = copy.with_name(f"{copy.stem}_dump.txt").read_text(encoding="utf-8", errors="replace")
    ends = {section.holds: section.end for section in file.sections}
    assert ends["data"] == int(re.findall(r"data block size: (\d+)", raw)[0])
    # Behind the last block of data there is at most what fills a page.
    blocks = [
        handle(text) for text in re.findall(r"^  HEX    [0-9A-F]+: ([0-9A-F]+)$", raw.partition("Data Block")[0], re.M)
    ]
    assert blocks and 0 <= ends["data"] - max(blocks)[1] - 5 < 4096
    assert ends["footer"] == copy.stat().st_size
    for name, holds in (
        ("Properties", "properties"), ("Compression dictionary", "dictionary"), ("Filter", "filter"),
        ("Range deletion", "tombstones"),
    ):  # fmt: skip
        stated = re.search(rf"{name} block handle: ([0-9A-F]+)", raw)
        assert (ends.get(holds)) == (handle(stated[1])[1] + 5 if stated else None), (holds, raw[:2000])
    footer = {name: handle(text) for name, text in re.findall(r"(\w+) handle: ([0-9A-Fa-f]+)", raw[:400])}
    assert (ends["metaindex"], ends["index"]) == (footer["metaindex"][1] + 5, footer["index"][1] + 5)


def log_says_of_tables_what_their_ends_say(folder: Path, tables: Sequence[StoredFile], *, hashed: bool) -> None:
    logged = logged_tables((folder / "LOG").read_text(encoding="utf-8", errors="replace"))
    compared = [(file, table) for file in tables if (table := logged.get(int(file.name.partition(".")[0])))]
    assert len(compared) > 3
    for file, table in compared:
        ends = {section.holds: section.end for section in file.sections}
        told = {section.holds: section.end for section in table.sections}
        assert told.pop("tail") == table.size == ends["footer"]
        # Prefixes of a hash index are in no property.
        lacks = ends["index"] - told.get("index", ends["index"])
        assert lacks == 0 or (lacks > 0 and hashed), file.name
        assert all(ends[holds] == end for holds, end in told.items() if holds != "index"), file.name
        assert table.family == file.column_family


@pytest.mark.long
@pytest.mark.needs("db_bench", "ldb")
def test_a_database_at_work_is_read_and_nothing_in_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    done(db_bench(folder, "fillrandom"))
    argv = db_bench(
        folder,
        "overwrite",
        "--use_existing_db=true",
        "--num=60000",
        "--writes=100000000",
        "--benchmark_write_rate_limit=20000000",
    )
    readings: list[StoredFiles] = []
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:

        def seen() -> int:
            readings.append(ROCKSDB.stored_files(folder))
            return len({tuple(levels_of(read).items()) for read in readings})

        until(lambda: seen() > 20, process, every=0)
        process.kill()
        process.wait()
    notes = {note for read in readings for note in read.notes}
    assert all(note.endswith("is not whole, as while it is written") for note in notes), notes
    last = ROCKSDB.stored_files(folder)
    found, _ = dumped(current_manifest(folder))
    there = {number: pair for number, pair in levels_of(last).items() if number in found}
    assert there == {number: (level, family) for number, (level, _, family) in found.items()}
    # From a reading in the middle on, by MANIFEST and by LOG.
    window = ROCKSDB.stored_files_of_window(readings[-5], last)
    logged = logged_tables((folder / "LOG").read_text(encoding="utf-8", errors="replace"))
    made = [file for file in window.files if file.made_by and file.kind == "sst"]
    for file in made:
        table = logged.get(int(file.name.partition(".")[0]))
        if table is not None and table.made_by:
            assert (file.made_by, file.column_family) == (table.made_by, "default"), file


RELEASES = ("6.29.5", "7.10.2", "8.11.4", "9.10.0", "10.4.2", "10.6.2", "10.10.1", "11.1.2", "11.8.1")


@pytest.mark.by_hand
@pytest.mark.needs("maven")
@pytest.mark.parametrize("version", RELEASES)
def test_files_of_every_release_are_read(version: str, tmp_path: Path) -> None:
    """Their client fetches them, or has them: levels by the engine's own table, parts by order and sizes."""
    library = ReleaseCache(ROCKSDB.releases()).library(version, Reporter(quiet=True))
    since = {"6": ("true", "9"), "7": ("false", "10.4")}
    newest = {form: partitions for form, (partitions, first) in since.items() if not older(version, first)}
    for format_version, partitions in {"2": "false", "5": "true", **newest}.items():
        folder = tmp_path / format_version
        flags = [f"--partition_index_and_filters={partitions}", "--metadata_block_size=512"]
        flags += [f"--library={library}", "--num=40000", "--key_size=20", "--bloom_bits=10", "--checksum=kXXH3"]
        flags += [f"--format_version={format_version}", "--target_file_size_base=262144", "--wal_dir=" + str(folder)]
        ended = client("rocksdb", folder, "fillseq,overwrite,flush,waitforcompaction,levelstats", *flags)
        assert ended.code == 0, ended.errors
        read = ROCKSDB.stored_files(folder)
        assert read.notes == ()
        tables = [file for file in read.files if file.kind == "sst" and file.level is not None]
        tree = {level.level: level.files for level in ROCKSDB.parse_tree(ended.out).levels}
        assert Counter(file.level for file in tables) == tree and len(tree) >= 1
        for file in tables:
            assert [part.holds for part in file.sections] == [
                "data", "filter", "index", "properties", "metaindex", "footer",
            ]  # fmt: skip
            assert file.sections[-1].end == (folder / file.name).stat().st_size
        logged = logged_tables((folder / "LOG").read_text(encoding="utf-8", errors="replace"))
        for file in tables:
            table = logged[int(file.name.partition(".")[0])]
            told = {part.holds: part.end for part in table.sections if part.holds != "tail"}
            assert told.items() <= {part.holds: part.end for part in file.sections}.items()
            # Nothing is compressed, which LOG says in another way from format_version 7 on.
            assert ("index" in told) == (partitions == "false")


@pytest.mark.long
def test_leveldb_says_as_much_of_its_levels_as_we(tmp_path: Path) -> None:
    known = engine_named("leveldb")
    benchmarks = "fillseq,overwrite,flush,waitforcompaction,stats"
    ended = client("leveldb", tmp_path / "db", benchmarks, "--num=60000", "--bloom_bits=10")
    assert ended.code == 0, ended.errors
    read = known.stored_files(tmp_path / "db")
    assert read.notes == ()
    tables = [file for file in read.files if file.kind == "sst" and file.level is not None]
    assert {one.level: one.files for one in known.parse_tree(ended.out).levels} == Counter(f.level for f in tables)
    for file in tables:
        assert [part.holds for part in file.sections] == ["data", "filter", "metaindex", "index", "footer"]
    again = client(
        "leveldb", tmp_path / "db", "overwrite,flush", "--num=60000", "--bloom_bits=10", "--use_existing_db=true"
    )
    assert again.code == 0, again.errors
    window = known.stored_files_of_window(read, known.stored_files(tmp_path / "db"))
    made = Counter(file.made_by for file in window.files if file.kind == "sst")
    assert made["compaction"] > 0


@pytest.mark.long
def test_lmdb_is_a_tree_and_a_lock(tmp_path: Path) -> None:
    assert client("lmdb", tmp_path / "db", "fillseq").code == 0
    read = engine_named("lmdb").stored_files(tmp_path / "db")
    assert [(file.name, file.kind) for file in read.files] == [("data.mdb", "tree"), ("lock.mdb", "lock")]
