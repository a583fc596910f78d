"""RocksDB's MANIFEST, and LevelDB's: which table files are in which level, edit by edit.

Each record is an edit: fields behind their tags, numbers as varints (db/version_edit.h's Tag and NewFileCustomTag;
LevelDB has tags 1 to 9 of the same meaning). Read from 6.29 to 11; a tag of a later release that may be passed over has
a bit set and a length behind it, at any other the reading ends. Checksums are looked at only where an edit cannot be
read, to distinguish damage from a newer format: in Python they take longer than all else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ground.errors import MeasurementError, error_of_system
from workloads.engines.rocksdb.log_records import LogRecords

# Tags whose value is one number, and those whose value is a string behind its length.
_NUMBERS = (3, 4, 9, 10, 203, 300)  # next file, last sequence, previous log, oldest log, column families, atomic group
_STRINGS = (1,)  # comparator
_LOG_NUMBER, _COMPACT_CURSOR, _DELETED_FILE = 2, 5, 6
_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 7, 100, 102, 103
_FAMILY, _FAMILY_ADD, _FAMILY_DROP = 200, 201, 202
_BLOB_FILE, _BLOB_GARBAGE = 400, 401
_MAY_BE_PASSED_OVER = 1 << 13
# Below that bit, and without a length all the same: as 6.x and some of 7 write them.
_OLD_BLOB_FILE, _OLD_BLOB_GARBAGE = _MAY_BE_PASSED_OVER + 2, _MAY_BE_PASSED_OVER + 3
_OLD_WAL_ADDITION, _OLD_WAL_DELETION = _MAY_BE_PASSED_OVER + 4, _MAY_BE_PASSED_OVER + 5
# Fields of a new file: the last, the folder it is in, and the bit of a field that a reader has to know.
_END_OF_FILE, _PATH, _MUST_BE_KNOWN = 1, 65, 1 << 6
_END_OF_BLOB, _END_OF_WAL, _SYNCED_SIZE = 0, 1, 2
_LONGEST_VARINT = 10


class EditError(Exception):
    """An edit that ends too early, or has a tag that this reader does not know."""


class NewFile(NamedTuple):
    """A table file that an edit adds. path: which of the database's folders it is in, 0 the first"""

    number: int
    level: int
    size: int
    path: int


@dataclass
class Edit:
    """What an edit changes. deleted: levels and numbers; has_log_number: a flush says up to where it has come

    blobs: numbers of blob files that were made; family_name: of the column family that is made, None where none is
    """

    family: int = 0
    deleted: list[tuple[int, int]] = field(default_factory=list)
    added: list[NewFile] = field(default_factory=list)
    blobs: list[int] = field(default_factory=list)
    family_name: str | None = None
    drops_family: bool = False
    has_log_number: bool = False

    @property
    def removed(self) -> set[int]:
        """Table files that it deletes, but those that it takes from one level into another."""
        return {number for _, number in self.deleted} - {new.number for new in self.added}

    @property
    def made_by(self) -> str:
        """What made its new files: "flush", "compaction" or "ingestion"."""
        if self.removed:
            return "compaction"
        return "flush" if self.has_log_number else "ingestion"


class TableFile(NamedTuple):
    """A table file of a version: its level, the number of its column family, size in B, and the folder it is in."""

    level: int
    family: int
    size: int
    path: int


def read_edit(data: bytes) -> Edit:
    """The edit that a record holds; EditError."""
    edit = Edit()
    at, size = 0, len(data)
    try:
        while at < size:
            tag, at = _varint(data, at)
            reader = _READERS.get(tag)
            if reader is not None:
                at = reader(data, at, edit)
            elif tag & _MAY_BE_PASSED_OVER:
                at = _skip_string(data, at)
            else:
                raise EditError(f"tag {tag} is not known")
    except IndexError:
        raise EditError("it ends within a field") from None
    if at > size:
        raise EditError("its last field is longer than the edit")
    return edit


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends. IndexError behind the end."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift, begin = byte & 127, 7, at
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
        if at - begin >= _LONGEST_VARINT:
            raise EditError("a number is longer than 64 bits")


def _skip_string(data: bytes, at: int) -> int:
    length = data[at]
    if length > 127:
        length, at = _varint(data, at)
        return at + length
    return at + 1 + length


def _skip_number(data: bytes, at: int, edit: Edit) -> int:
    del edit
    return _varint(data, at)[1]


def _pass_string(data: bytes, at: int, edit: Edit) -> int:
    del edit
    return _skip_string(data, at)


def _log_number(data: bytes, at: int, edit: Edit) -> int:
    edit.has_log_number = True
    return _varint(data, at)[1]


def _compact_cursor(data: bytes, at: int, edit: Edit) -> int:
    del edit
    return _skip_string(data, _varint(data, at)[1])


def _deleted_file(data: bytes, at: int, edit: Edit) -> int:
    level, at = _varint(data, at)
    number, at = _varint(data, at)
    edit.deleted.append((level, number))
    return at


def _new_file(
    data: bytes, at: int, edit: Edit, *, has_path: bool = False, sequences: int = 2, fields: bool = False
) -> int:
    level, at = _varint(data, at)
    number, at = _varint(data, at)
    path = 0
    if has_path:
        path, at = _varint(data, at)
    size, at = _varint(data, at)
    at = _skip_string(data, _skip_string(data, at))  # its smallest and its largest key
    for _ in range(sequences):
        while data[at] > 127:
            at += 1
        at += 1
    while fields:
        tag = data[at]
        if tag == _END_OF_FILE:
            at += 1
            break
        length = data[at + 1]
        # Nearly all of them: a tag and a length of one byte each.
        if tag < _MUST_BE_KNOWN and length < 128:
            at += 2 + length
            continue
        tag, at = _varint(data, at)
        length, at = _varint(data, at)
        if tag == _PATH:
            path = data[at]
        elif tag & _MUST_BE_KNOWN:
            raise EditError(f"field {tag} of a new file is not known")
        at += length
    edit.added.append(NewFile(number, level, size, path))
    return at


def _blob(data: bytes, at: int, edit: Edit, *, added: bool) -> int:
    number, at = _varint(data, at)
    at = _varint(data, _varint(data, at)[1])[1]  # how many blobs, and bytes
    if added:
        at = _skip_string(data, _skip_string(data, at))  # the checksum's method, and the checksum
        edit.blobs.append(number)
    while True:
        tag, at = _varint(data, at)
        if tag == _END_OF_BLOB:
            return at
        if tag & _MUST_BE_KNOWN:
            raise EditError(f"field {tag} of a blob file is not known")
        at = _skip_string(data, at)


def _old_wal_addition(data: bytes, at: int, edit: Edit) -> int:
    del edit
    at = _varint(data, at)[1]
    while True:
        tag, at = _varint(data, at)
        if tag == _END_OF_WAL:
            return at
        if tag != _SYNCED_SIZE:
            raise EditError(f"field {tag} of a write-ahead log is not known")
        at = _varint(data, at)[1]


def _family(data: bytes, at: int, edit: Edit) -> int:
    edit.family, at = _varint(data, at)
    return at


def _family_add(data: bytes, at: int, edit: Edit) -> int:
    length, at = _varint(data, at)
    edit.family_name = data[at : at + length].decode("utf-8", "replace")
    return at + length


def _family_drop(data: bytes, at: int, edit: Edit) -> int:
    del data
    edit.drops_family = True
    return at


_READERS: dict[int, Callable[[bytes, int, Edit], int]] = {
    **dict.fromkeys(_NUMBERS, _skip_number),
    **dict.fromkeys(_STRINGS, _pass_string),
    _LOG_NUMBER: _log_number,
    _COMPACT_CURSOR: _compact_cursor,
    _DELETED_FILE: _deleted_file,
    _NEW_FILE: lambda data, at, edit: _new_file(data, at, edit, sequences=0),
    _NEW_FILE_2: _new_file,
    _NEW_FILE_3: lambda data, at, edit: _new_file(data, at, edit, has_path=True),
    _NEW_FILE_4: lambda data, at, edit: _new_file(data, at, edit, fields=True),
    _FAMILY: _family,
    _FAMILY_ADD: _family_add,
    _FAMILY_DROP: _family_drop,
    **dict.fromkeys((_BLOB_FILE, _OLD_BLOB_FILE), lambda data, at, edit: _blob(data, at, edit, added=True)),
    **dict.fromkeys((_BLOB_GARBAGE, _OLD_BLOB_GARBAGE), lambda data, at, edit: _blob(data, at, edit, added=False)),
    _OLD_WAL_ADDITION: _old_wal_addition,
    _OLD_WAL_DELETION: _skip_number,
}


class Edits:
    """The edits of a MANIFEST from one offset to another, in order; to be iterated once.

    position: the end of the last edit that was read, B; stopped: why no more was, in words, "" at the file's end;
    torn: whether only the last record was not whole, as while it is written
    """

    def __init__(self, path: Path, start: int = 0, end: int | None = None) -> None:
        """start, end: as `position` was after an earlier reading"""
        self._records = LogRecords(path, start, end)
        self.position = start
        self.stopped = ""
        self.torn = False

    def __iter__(self) -> Iterator[Edit]:
        """OSError where the file cannot be read."""
        for data in self._records:
            self.position = self._records.position
            try:
                edit = read_edit(data)
            except EditError as error:
                damaged = self._records.is_damaged()
                reason = "its checksum is wrong" if damaged else "a newer release wrote it, or damage"
                self.stopped = f"the edit at {self.position} cannot be read: {error} ({reason})"
                return
            yield edit
        self.position, self.stopped, self.torn = self._records.position, self._records.stopped, self._records.torn


@dataclass
class Version:
    """What a database holds after some edits.

    files:     table files by number; blobs: the column family of each blob file that was ever made
    families:  names of column families by number
    gone:      files that were deleted since, as they were: of the numbers in `kept` alone, for they are many
    """

    families: dict[int, str]
    kept: Container[int] = frozenset()
    files: dict[int, TableFile] = field(default_factory=dict)
    gone: dict[int, TableFile] = field(default_factory=dict)
    blobs: dict[int, int] = field(default_factory=dict)

    def apply(self, edit: Edit) -> None:
        """Goes on by one edit."""
        family = edit.family
        if edit.family_name is not None:
            self.families[family] = edit.family_name
        for level, number in edit.deleted:
            before = self.files.get(number)
            if before is not None and before.level == level:
                del self.files[number]
                if number in self.kept:
                    self.gone[number] = before
        for new in edit.added:
            self.files[new.number] = TableFile(new.level, family, new.size, new.path)
            self.gone.pop(new.number, None)
        for number in edit.blobs:
            self.blobs[number] = family
        if edit.drops_family:
            dropped = [number for number, file in self.files.items() if file.family == family]
            for number in dropped:
                file = self.files.pop(number)
                if number in self.kept:
                    self.gone[number] = file

    def knows(self, number: int) -> bool:
        """Whether it has a table file, or had it."""
        return number in self.files or number in self.gone

    def copy(self, kept: Container[int]) -> Version:
        """An independent copy, to which further edits can be applied. kept: as of `Version`"""
        return Version(dict(self.families), kept, dict(self.files), dict(self.gone), dict(self.blobs))

    def family_of(self, number: int) -> str:
        """The name of a table's or blob file's column family; "" where it is not known."""
        file = self.files.get(number) or self.gone.get(number)
        return self.families.get(file.family if file else self.blobs.get(number, -1), "")


def current_manifest(directory: Path) -> Path:
    """The MANIFEST that CURRENT names; MeasurementError where it names none or cannot be read."""
    current = directory / "CURRENT"
    try:
        name = current.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise error_of_system(error, current) from None
    if not name.startswith("MANIFEST-") or not name[9:].rstrip("\n").isdecimal():
        raise MeasurementError(f"{current} holds {name[:40]!r}, not the name of a MANIFEST", means="levels are unknown")
    return directory / name.rstrip("\n")
