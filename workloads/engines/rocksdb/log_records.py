"""Records of the log format that MANIFESTs and write-ahead logs share: RocksDB's and LevelDB's.

A file is blocks of 32 KiB. A record is one fragment (FULL), or several (FIRST, MIDDLE..., LAST); a fragment is within
one block, behind a header of 7 bytes: masked crc32c (4), length (2), type (1); 11 where a file is used again:
also the number of its log (4). Fewer than 7 bytes at a block's end are filled (db/log_format.h; LevelDB's
doc/log_format.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

BLOCK = 32 << 10
_AT_ONCE = 64 * BLOCK
_HEADER, _RECYCLED_HEADER = 7, 11
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# The same in a file that is used again.
_RECYCLED = {5: _FULL, 6: _FIRST, 7: _MIDDLE, 8: _LAST, 11: 11}
# Sizes of timestamps in the records that follow, of a write-ahead log.
_PASSED_OVER = (10, 11)
# Set in a type that an older reader may pass over.
_IGNORABLE = 1 << 7

_BEING_WRITTEN = "its last record is not whole, as while it is written"


class LogRecords:
    """The records of a file from an offset on, which is 0 or the end of a record: to be iterated once.

    position: the end of the last whole record, B
    stopped:  why the file was not read to its end, in words; "" where it was
    torn:     whether that is only that the last record is not whole, which is normal in a file that is written
    """

    def __init__(self, path: Path, start: int = 0, end: int | None = None) -> None:
        """end: no record that begins there or behind it is read"""
        self._path = path
        self._last = end
        self._ended = False
        self._fragments: list[tuple[int, bytes, bytes]] = []
        self.position = start
        self.stopped = ""
        self.torn = False

    def __iter__(self) -> Iterator[bytes]:
        """OSError where the file cannot be opened or read."""
        with self._path.open("rb") as file:
            base = self.position - self.position % _AT_ONCE
            file.seek(base)
            at = self.position - base
            while chunk := file.read(_AT_ONCE):
                for data, end in self._records(chunk, base, at):
                    yield data
                    self.position = base + end
                if self._ended or len(chunk) < _AT_ONCE:
                    break
                base, at = base + len(chunk), 0
        if self._fragments and not self._ended:
            self._end_at(_BEING_WRITTEN)

    def is_damaged(self) -> bool:
        """Whether a checksum of the last record's fragments is not that of its bytes: slow, about 10 MB/s."""
        return any(masked_crc(kind + data) != stated for stated, kind, data in self._fragments)

    def _records(self, chunk: bytes, base: int, at: int) -> Iterator[tuple[bytes, int]]:
        """Records that end in a chunk, which begins with a block, each with the offset of its end in it."""
        while at < len(chunk):
            block_end = at - at % BLOCK + BLOCK
            if block_end - at < _HEADER:
                at = block_end
                continue
            if at + _HEADER <= len(chunk) and not any(chunk[at + 4 : at + _HEADER]):
                # The filling of a block with longer headers, or space set aside for what is still to be written.
                at = block_end
                continue
            fragment = self._fragment(chunk, base, at)
            if fragment is None:
                return
            kind, end, part = fragment
            at = end
            if kind in _PASSED_OVER or kind & _IGNORABLE:
                continue
            kind = _RECYCLED.get(kind, kind)
            if kind in (_FULL, _FIRST):
                # Of a record that was begun before it no more was written.
                self._fragments = []
            elif kind not in (_MIDDLE, _LAST) or not self._fragments:
                self._end_at(f"the fragment before {base + at} is of type {kind}, which nothing before it begins")
                return
            self._fragments.append(part)
            if kind in (_FULL, _LAST):
                yield part[2] if kind == _FULL else b"".join(data for _, _, data in self._fragments), end
                self._fragments = []

    def _fragment(self, chunk: bytes, base: int, at: int) -> tuple[int, int, tuple[int, bytes, bytes]] | None:
        """Its type, its end in the chunk, and its checksum, type as bytes, and data; None where there is no more."""
        size = len(chunk)
        if self._last is not None and base + at >= self._last and not self._fragments:
            self._end_at("")
        elif at + _HEADER > size:
            self._end_at(_BEING_WRITTEN)
        else:
            stated, length, kind = struct.unpack_from("<IHB", chunk, at)
            data_at = at + (_RECYCLED_HEADER if kind in _RECYCLED else _HEADER)
            end = data_at + length
            if end > at - at % BLOCK + BLOCK:
                self._end_at(f"the fragment at {base + at}, of {length} bytes, reaches beyond its block")
            elif end > size:
                self._end_at(_BEING_WRITTEN)
            else:
                return kind, end, (stated, chunk[at + 6 : data_at], chunk[data_at:end])
        return None

    def _end_at(self, why: str) -> None:
        self.stopped, self.torn, self._ended = why, why == _BEING_WRITTEN, True


def masked_crc(data: bytes) -> int:
    """The crc32c of bytes, masked as the header has it (util/crc32c.h: rotated, and a constant added)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> list[int]:
    """Of the polynomial of Castagnoli, reflected."""
    found = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # noqa: PLW2901
        found.append(crc)
    return found


_TABLE = _table()
