"""Parts of table files that are made here, with each form of the footer."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.log_files import numbers
from workloads.engines.rocksdb.table_sections import table_sections

ROCKSDB, LEVELDB = struct.pack("<Q", 0x88E241B785F4CFF7), struct.pack("<Q", 0xDB4775248B80FB57)
FILTER, PARTS = b"fullfilter.rocksdb.BuiltinBloomFilter", b"partitionedfilter.rocksdb.BuiltinBloomFilter"
DATA, RAW = 20_000, bytes(range(256))


def block(entries: dict[bytes, bytes]) -> bytes:
    """Keys in order, each with what it shares with the one before; one restart."""
    made, before = b"", b""
    for key, value in sorted(entries.items()):
        shared = next(
            (n for n, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), min(len(key), len(before))
        )
        made += numbers(shared, len(key) - shared, len(value)) + key[shared:] + value
        before = key
    return made + struct.pack("<II", 0, 1)


class Table:
    """Blocks one after the other, each with its trailer."""

    def __init__(self, data: int = DATA) -> None:
        self.bytes = RAW * (data // len(RAW)) + RAW[: data % len(RAW)]
        self.named: dict[bytes, bytes] = {}

    def add(self, content: bytes, name: bytes = b"", compression: int = 0) -> tuple[bytes, int]:
        """Its handle, and where it ends."""
        handle = numbers(len(self.bytes), len(content))
        self.bytes += content + bytes([compression, 1, 2, 3, 4])
        if name:
            self.named[name] = handle
        return handle, len(self.bytes)

    def end(self, version: int, index: bytes) -> bytes:
        """metaindex and footer; version: -1 is LevelDB's"""
        content = block(self.named)
        handle, _ = self.add(content)
        if version >= 6:
            fields = b"\x3e\0\x7a\0" + bytes(8) + struct.pack("<I", len(content)) + bytes(24)
        else:
            fields = (handle + index).ljust(40, b"\0")
        if version < 0:
            return self.bytes + fields + LEVELDB
        return self.bytes + b"\4" + fields + struct.pack("<I", version) + ROCKSDB


def properties(data: int = DATA, **more: bytes) -> bytes:
    stated = {b"rocksdb.data.size": numbers(data), b"rocksdb.deleted.keys": b"\0", b"rocksdb.index.size": b"\1"}
    return block({**stated, **{name.encode(): value for name, value in more.items()}})


def sections(place: Path, data: bytes) -> list[tuple[str, int]]:
    path = place / "000012.sst"
    path.write_bytes(data)
    return [(section.holds, section.end) for section in table_sections(path)]


@pytest.mark.parametrize("version", [1, 2, 5, 6, 7])
def test_every_part_of_a_table_has_its_place(tmp_path: Path, version: int) -> None:
    table = Table()
    # Parts of a filter, and of an index, lie before the block that is named.
    for _ in range(3):
        table.add(b"a part of the filter" * 20)
    _, filter_end = table.add(b"top of the filter", PARTS)
    table.add(b"a part of the index" * 90)
    index, index_end = table.add(b"top of the index", b"rocksdb.index" if version >= 6 else b"")
    ends = [table.add(b"d" * 99, b"rocksdb.compression_dict")[1], table.add(b"r", b"rocksdb.range_del")[1]]
    ends += [table.add(properties(), b"rocksdb.properties")[1], table.add(b"u", b"users.own")[1]]
    data = table.end(version, index)
    holds = ["data", "filter", "index", "dictionary", "tombstones", "properties", "other", "metaindex", "footer"]
    assert sections(tmp_path, data) == list(
        zip(holds, [DATA, filter_end, index_end, *ends, len(data) - 53, len(data)], strict=True)
    )


def test_a_large_table_takes_a_second_read(tmp_path: Path) -> None:
    table = Table(1 << 20)
    _, filter_end = table.add(b"f" * 100_000, FILTER)
    index, index_end = table.add(b"i" * 70_000)
    _, end = table.add(properties(1 << 20, **{f"users.{n:04}": b"v" * 50 for n in range(2000)}), b"rocksdb.properties")
    assert end - index_end > 100_000
    data = table.end(5, index)
    assert sections(tmp_path, data)[:4] == [
        ("data", 1 << 20), ("filter", filter_end), ("index", index_end), ("properties", end),
    ]  # fmt: skip


def test_leveldb_has_its_index_behind_the_metaindex(tmp_path: Path) -> None:
    table = Table()
    _, filter_end = table.add(b"f" * 500, b"filter.leveldb.BuiltinBloomFilter2")
    content = block(table.named)
    metaindex, metaindex_end = table.add(content)
    index, index_end = table.add(b"i" * 300)
    data = table.bytes + (metaindex + index).ljust(40, b"\0") + LEVELDB
    assert sections(tmp_path, data) == [
        ("data", DATA), ("filter", filter_end), ("metaindex", metaindex_end), ("index", index_end),
        ("footer", len(data)),
    ]  # fmt: skip


def test_only_tombstones_are_a_table_too(tmp_path: Path) -> None:
    table = Table(0)
    index, _ = table.add(block({}))
    table.add(b"r", b"rocksdb.range_del")
    table.add(properties(0), b"rocksdb.properties")
    assert [holds for holds, _ in sections(tmp_path, table.end(5, index))][:2] == ["index", "tombstones"]


def whole_table(version: int = 5) -> bytes:
    table = Table()
    table.add(b"f" * 99, FILTER)
    index, _ = table.add(b"i" * 50, b"rocksdb.index" if version >= 6 else b"")
    table.add(properties(), b"rocksdb.properties")
    return table.end(version, index)


def test_what_is_no_finished_table_has_no_parts(tmp_path: Path) -> None:
    assert sections(tmp_path, whole_table())
    assert sections(tmp_path, b"") == sections(tmp_path, b"short") == sections(tmp_path, RAW * 40) == []
    assert table_sections(tmp_path / "gone.sst") == table_sections(tmp_path) == ()
    table = Table()
    index, _ = table.add(b"i")
    table.add(properties(), b"rocksdb.properties", compression=1)
    assert sections(tmp_path, table.end(5, index)) == []
    table = Table()
    index, _ = table.add(b"i")
    table.add(properties(DATA + 1), b"rocksdb.properties")  # data that reaches into the index
    assert sections(tmp_path, table.end(5, index)) == []


@pytest.mark.parametrize("version", [5, 6])
def test_a_table_that_is_cut_anywhere_has_no_parts(tmp_path: Path, version: int) -> None:
    whole = whole_table(version)
    for cut in (*range(len(whole) - 600, len(whole) - 60, 7), *range(len(whole) - 60, len(whole))):
        assert sections(tmp_path, whole[:cut]) == []


@settings(max_examples=50)
@given(st.sampled_from([5, 6]), st.lists(st.tuples(st.integers(1, 600), st.integers(0, 255)), min_size=1, max_size=6))
def test_bytes_that_flip_are_parts_in_order_or_none(
    tmp_path_factory: pytest.TempPathFactory, version: int, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(whole_table(version))
    for back, value in flips:
        data[-back] = value
    path = tmp_path_factory.getbasetemp() / "000013.sst"
    path.write_bytes(data)
    found = table_sections(path)
    ends = [section.end for section in found]
    assert ends == sorted(set(ends)) and (not ends or ends[-1] == len(data))
