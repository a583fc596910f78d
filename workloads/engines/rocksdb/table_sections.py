"""Where the parts of a table file lie: RocksDB's block-based table and LevelDB's, by their last few KiB.

From its end: the footer, which says where the metaindex is; that names blocks that hold no data, each with its offset
and size (a handle: two varints). A block has a trailer of 5 bytes, its kind of compression first. The footer (RocksDB's
table/format.cc, LevelDB's doc/table_format.md) has three forms, told by the magic number at its end and by its version:

    48 B  handles of metaindex and index, filled up to 40 bytes; magic number: LevelDB, and RocksDB's version 0
    53 B  kind of checksum (1); the same 40 bytes; version (4); magic number: versions 1 to 5
    53 B  kind of checksum (1); 3e 00 7a 00; two checksums (8); size of the metaindex, which lies just before (4);
          24 reserved; version (4); magic number: version 6 on, whose index is named in the metaindex

Data lies first, up to the property rocksdb.data.size: parts of a filter or an index lie behind it without a name of
their own, each before the block that the metaindex names. LevelDB has no properties, and no such parts.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from ground.results.stored_files import FileSection

_BLOCK_BASED, _LEVELDB = 0x88E241B785F4CFF7, 0xDB4775248B80FB57
_FOOTER, _SHORT_FOOTER = 53, 48
_TRAILER = 5
_EXTENDED = b"\x3e\x00\x7a\x00"
# Holds footer, metaindex and properties of all but tables with many properties of the user's own.
_AT_ONCE = 4 << 10
# A metaindex or properties that are larger are none.
_LARGEST = 1 << 20
_LONGEST_VARINT = 10
_DATA_SIZE = b"rocksdb.data.size"
_PROPERTIES = (b"rocksdb.properties", b"rocksdb.stats")
# What a block that the metaindex names holds, by the beginning of its name.
_HOLDS = {
    b"fullfilter.": "filter",
    b"partitionedfilter.": "filter",
    b"filter.": "filter",
    b"rocksdb.index": "index",
    b"rocksdb.hashindex.": "index",
    b"rocksdb.compression_dict": "dictionary",
    b"rocksdb.range_del": "tombstones",
    **dict.fromkeys(_PROPERTIES, "properties"),
}


class _NoTableError(Exception):
    """Bytes that are not those of a finished table of a known form."""


def table_sections(path: Path) -> tuple[FileSection, ...]:
    """The parts of a table file, in order, up to its end; () for a file that is no such table, or not yet finished.

    They hold "data", "filter", "index", "dictionary" (of the compression), "tombstones" (deletions of ranges),
    "properties", "metaindex", "footer", or "other". One or two reads of 4 KiB. () also where the file is gone or may
    not be read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        # Otherwise the kernel reads ahead, 128 KiB and more.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        return tuple(_sections(_Tail(file)))
    except (OSError, IndexError, struct.error, _NoTableError):
        return ()
    finally:
        os.close(file)


class _Tail:
    """A file whose end was read already. size: of the file, B"""

    def __init__(self, file: int) -> None:
        self._file = file
        self.size = os.fstat(file).st_size
        self._begin = max(0, self.size - _AT_ONCE)
        self._data = os.pread(file, _AT_ONCE, self._begin)

    def read(self, offset: int, size: int) -> bytes:
        """_NoTableError where the file has no such bytes, or they are too many for what is looked for."""
        if size > _LARGEST or offset < 0 or offset + size > self.size:
            raise _NoTableError
        if offset < self._begin:
            return os.pread(self._file, size, offset)
        return self._data[offset - self._begin : offset - self._begin + size]

    def block(self, handle: tuple[int, int]) -> bytes:
        offset, size = handle
        data = self.read(offset, size + _TRAILER)
        if len(data) != size + _TRAILER or data[size] != 0:  # cut short, or compressed, which no such block is
            raise _NoTableError
        return data[:size]


def _sections(tail: _Tail) -> Iterator[FileSection]:
    metaindex, index, footer = _footer(tail)
    named = dict(_entries(tail.block(metaindex)))
    blocks = [(*_handle(value, 0)[0], _holds(name)) for name, value in named.items()]
    blocks += [(*metaindex, "metaindex"), *([(*index, "index")] if index else [])]
    blocks.sort()
    end = data = _data_size(tail, named, blocks[0][0])
    if data:
        yield FileSection(data, "data")
    for position, (offset, size, holds) in enumerate(blocks):
        if offset < end or offset + size + _TRAILER > tail.size - footer:
            raise _NoTableError
        end = offset + size + _TRAILER
        following = blocks[position + 1][2] if position + 1 < len(blocks) else ""
        if holds != following:
            yield FileSection(end, holds)
    yield FileSection(tail.size, "footer")


def _footer(tail: _Tail) -> tuple[tuple[int, int], tuple[int, int] | None, int]:
    """Handles of the metaindex and of the index, None where the metaindex has it; and the footer's length, B."""
    data = tail.read(tail.size - _SHORT_FOOTER, _SHORT_FOOTER)
    (magic,) = struct.unpack_from("<Q", data, _SHORT_FOOTER - 8)
    if magic == _LEVELDB:
        return *_two_handles(data, 0), _SHORT_FOOTER
    if magic != _BLOCK_BASED:
        raise _NoTableError
    data = tail.read(tail.size - _FOOTER, _FOOTER)
    (version,) = struct.unpack_from("<I", data, _FOOTER - 12)
    if version < 6:
        return *_two_handles(data, 1), _FOOTER
    if data[1:5] != _EXTENDED:
        raise _NoTableError
    (size,) = struct.unpack_from("<I", data, 13)
    return (tail.size - _FOOTER - _TRAILER - size, size), None, _FOOTER


def _two_handles(data: bytes, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    metaindex, at = _handle(data, at)
    return metaindex, _handle(data, at)[0]


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(_LONGEST_VARINT):
        byte = data[at + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, at + count + 1
    raise _NoTableError


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block: how much a key shares with the one before it, then the lengths of its rest and value.

    Behind them offsets of keys that share nothing, 4 bytes each, and how many these are.
    """
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        length, at = _varint(block, at)
        value, at = _varint(block, at)
        key = key[:shared] + block[at : at + length]
        at += length
        yield key, block[at : at + value]
        at += value
    if at != end:
        raise _NoTableError


def _holds(name: bytes) -> str:
    return next((holds for beginning, holds in _HOLDS.items() if name.startswith(beginning)), "other")


def _data_size(tail: _Tail, named: Mapping[bytes, bytes], first: int) -> int:
    """Bytes of data; first: the offset of the first block that the metaindex or the footer names."""
    for name in _PROPERTIES:
        if name in named:
            stated = dict(_entries(tail.block(_handle(named[name], 0)[0]))).get(_DATA_SIZE)
            if stated is None:
                raise _NoTableError
            return _varint(stated, 0)[0]
    return first
