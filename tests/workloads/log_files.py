"""Files in the log format and edits of a MANIFEST, made as db/log_writer.cc and db/version_edit.cc make them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from workloads.engines.rocksdb.log_records import BLOCK, masked_crc


def log_file(records: Sequence[bytes], *, recycled: int | None = None) -> bytes:
    """recycled: the log's number in each header, as where a file is used again"""
    made = bytearray()
    head = 7 if recycled is None else 11
    for record in records:
        at, first = 0, True
        while first or at < len(record):
            left = BLOCK - len(made) % BLOCK
            if left < head:
                made += bytes(left)
                left = BLOCK
            part = record[at : at + left - head]
            last = at + len(part) == len(record)
            kind = (1 if last else 2) if first else (4 if last else 3)
            made += fragment(kind, part) if recycled is None else fragment(kind + 4, part, struct.pack("<I", recycled))
            at, first = at + len(part), False
    return bytes(made)


def fragment(kind: int, data: bytes, number: bytes = b"") -> bytes:
    return struct.pack("<IHB", masked_crc(bytes([kind]) + number + data), len(data), kind) + number + data


def varint(value: int) -> bytes:
    made = bytearray()
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def string(data: bytes) -> bytes:
    return varint(len(data)) + data


def numbers(*values: int) -> bytes:
    return b"".join(map(varint, values))


# Fields that releases put behind a new file: ancestor and creation time, epoch, checksum and its function, temperature,
# unique id, tail size, timestamps that are not kept, least and greatest timestamp.
FIELDS = {5: numbers(1), 6: numbers(2), 13: numbers(300), 7: b"\xff" * 4, 8: b"crc", 9: b"\2", 12: bytes(16)}
FIELDS |= {
    15: numbers(9),
    16: b"\0",
    10: b"a",
    11: b"z",
    3: bytes(8),
    2: b"\1",
    4: numbers(5),
    14: numbers(1),
    17: b"later",
}


def new_file(
    number: int, level: int, size: int = 1000, fields: dict[int, bytes] | None = None, key: bytes = b"key\n0" + bytes(8)
) -> bytes:
    """An edit's kNewFile4."""
    made = numbers(103, level, number, size) + string(key) + string(key + b"1") + numbers(1, 99)
    return made + b"".join(varint(tag) + string(data) for tag, data in (fields or FIELDS).items()) + numbers(1)


def deleted(number: int, level: int) -> bytes:
    return numbers(6, level, number)


def snapshot(comparator: bytes = b"leveldb.BytewiseComparator") -> bytes:
    """The first record of a MANIFEST."""
    return numbers(8193) + string(b"a-database-id") + numbers(1) + string(comparator) + numbers(2, 0, 9, 0, 3, 2, 4, 0)
