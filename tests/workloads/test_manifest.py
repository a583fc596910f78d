"""MANIFESTs made here byte by byte: the log format, every tag of an edit, tails that were cut, bytes that flip."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ground.errors import MeasurementError
from tests.workloads.log_files import FIELDS, deleted, fragment, log_file, new_file, numbers, snapshot, string
from workloads.engines.rocksdb.log_records import BLOCK, LogRecords, masked_crc
from workloads.engines.rocksdb.manifest import (
    Edit,
    EditError,
    Edits,
    NewFile,
    TableFile,
    Version,
    current_manifest,
    read_edit,
)

FLUSH = numbers(2, 7) + new_file(12, 0) + numbers(200, 1)
COMPACTION = deleted(12, 0) + deleted(8, 1) + new_file(15, 1) + new_file(16, 1)
MOVE = deleted(15, 1) + new_file(15, 2)


def records_of(path: Path, data: bytes, start: int = 0, end: int | None = None) -> tuple[list[bytes], LogRecords]:
    path.write_bytes(data)
    records = LogRecords(path, start, end)
    return list(records), records


def version_of(edits: Edits, *kept: int) -> Version:
    version = Version({0: "default"}, kept)
    for edit in edits:
        version.apply(edit)
    return version


def test_the_checksum_is_that_of_the_format() -> None:
    # "crc32c of 123456789 is e3069283" (RFC 3720, B.4), rotated by 15 and with the constant added.
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("recycled", [None, 5])
@pytest.mark.parametrize("size", [0, 1, 6, 7, 100, BLOCK - 7, BLOCK - 6, BLOCK, 3 * BLOCK])
def test_records_come_out_as_they_went_in_wherever_blocks_end(tmp_path: Path, size: int, recycled: int | None) -> None:
    # Of 7 to 27 bytes: each distance of a record's end from a block's comes about.
    given_ = [b"a" * size, *(bytes([n % 256]) * (7 + n % 21) for n in range(1500))]
    read, records = records_of(tmp_path / "log", log_file(given_, recycled=recycled))
    assert read == given_
    assert (records.stopped, records.torn, records.is_damaged()) == ("", False, False)
    assert records.position == (tmp_path / "log").stat().st_size


def test_a_reading_goes_on_where_another_ended(tmp_path: Path) -> None:
    given_ = [bytes([n]) * (n * 100) for n in range(40)]
    data = log_file(given_)
    records = LogRecords(tmp_path / "log")
    (tmp_path / "log").write_bytes(data)
    positions = [0]
    for _ in records:
        positions.append(records.position)  # of the record before
    ends = [*positions[2:], records.position]
    for count, end in enumerate(ends, 1):
        assert records_of(tmp_path / "log", data, end)[0] == given_[count:]
        assert records_of(tmp_path / "log", data, 0, end)[0] == given_[:count]


def test_wherever_a_file_is_cut_what_was_whole_is_read_and_the_rest_is_told(tmp_path: Path) -> None:
    given_ = [b"a" * (BLOCK - 60), b"over a block's border " * 5, b"", b"last"]
    data = log_file(given_)
    whole = [len(log_file(given_[:count])) for count in range(1, 5)]
    for cut in range(BLOCK - 100, len(data) + 1):
        read, records = records_of(tmp_path / "log", data[:cut])
        count = sum(end <= cut for end in whole)
        assert read == given_[:count]
        assert records.position == (whole[count - 1] if count else 0)
        assert records.torn is bool(records.stopped) is (cut not in whole)


def test_space_that_was_set_aside_is_the_end(tmp_path: Path) -> None:
    read, records = records_of(tmp_path / "log", log_file([b"one"]) + bytes(5000))
    assert (read, records.stopped, records.position) == ([b"one"], "", 10)


def test_what_is_no_log_is_told(tmp_path: Path) -> None:
    for data, why in (
        (fragment(3, b"x"), "is of type 3, which nothing before it begins"),
        (fragment(9, b"\0\0\0\0"), "is of type 9"),
        (b"\0\0\0\0\xff\xff\1" + bytes(2 * BLOCK), "of 65535 bytes, reaches beyond its block"),
    ):
        read, records = records_of(tmp_path / "log", log_file([b"one"]) + data)
        assert read == [b"one"] and why in records.stopped and not records.torn
        assert records.position == 10
    # What a later release may add, and sizes of timestamps, are passed over; a record that has no end, too.
    more = fragment(10, b"sizes") + fragment(140, b"?") + fragment(2, b"never ended") + log_file([b"two"])
    assert records_of(tmp_path / "log", log_file([b"one"]) + more)[0] == [b"one", b"two"]


def test_an_edit_says_what_moved_and_who_made_what() -> None:
    assert read_edit(FLUSH) == Edit(family=1, added=[NewFile(12, 0, 1000, 0)], has_log_number=True)
    assert (read_edit(FLUSH).made_by, read_edit(COMPACTION).made_by) == ("flush", "compaction")
    assert read_edit(new_file(3, 6)).made_by == "ingestion"
    assert (read_edit(MOVE).removed, read_edit(COMPACTION).removed) == (set(), {8, 12})


def test_every_form_of_a_new_file_is_read() -> None:
    key = string(b"k\n" + bytes(8))
    plain = NewFile(300, 2, 1 << 40, 0)
    assert read_edit(numbers(7, 2, 300, 1 << 40) + key + key).added == [plain]
    assert read_edit(numbers(100, 2, 300, 1 << 40) + key + key + numbers(1, 2)).added == [plain]
    in_path = NewFile(300, 2, 1 << 40, 3)
    assert read_edit(numbers(102, 2, 300, 3, 1 << 40) + key + key + numbers(1, 2)).added == [in_path]
    assert read_edit(new_file(300, 2, 1 << 40, {**FIELDS, 65: b"\3"})).added == [in_path]
    assert read_edit(new_file(300, 2, 1 << 40, {61: b"of a later release" * 20})).added == [plain]
    with pytest.raises(EditError, match="field 66 of a new file is not known"):
        read_edit(new_file(300, 2, 1 << 40, {66: b"must be known"}))


def test_fields_that_say_nothing_of_files_are_passed_over() -> None:
    wal = numbers(8198) + string(numbers(5, 2, 77, 1)) + numbers(8199) + string(numbers(5))
    old_wal = numbers(8196, 5, 2, 77, 1) + numbers(8196, 5, 1) + numbers(8197, 4)
    garbage = numbers(401, 9, 1, 2, 0) + numbers(8195, 9, 1, 2, 5) + string(b"later") + numbers(0)
    others = numbers(203, 4, 300, 2, 10, 6, 5, 1) + string(b"cursor") + numbers(8197, 1)
    later = numbers(8210) + string(b"?" * 200) + numbers(8200) + string(b"\1")
    assert read_edit(snapshot() + wal + old_wal + garbage + others + later) == Edit(has_log_number=True)
    blobs = numbers(400, 21, 5, 9999) + string(b"crc") + string(b"") + numbers(0)
    old_blobs = numbers(8194, 22, 5, 9999) + string(b"") + string(b"") + numbers(3) + string(b"x") + numbers(0)
    assert read_edit(blobs + old_blobs).blobs == [21, 22]


@pytest.mark.parametrize("tag", [8, 12, 101, 104, 402, 4096, 16384])
def test_a_tag_that_is_not_known_is_named_unless_it_may_be_passed_over(tag: int) -> None:
    with pytest.raises(EditError, match=f"tag {tag} is not known"):
        read_edit(FLUSH + numbers(tag, 1))


def test_an_edit_that_is_cut_anywhere_is_no_edit_of_more() -> None:
    whole = snapshot() + FLUSH + COMPACTION
    for cut in range(len(whole)):
        try:
            edit = read_edit(whole[:cut])
        except EditError:
            continue
        assert edit.added == read_edit(whole).added[: len(edit.added)]


def test_a_version_has_levels_families_and_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST-000005"
    families = numbers(200, 1, 201) + string("Kürzel".encode())
    one = numbers(200, 1)
    edits = [snapshot(), families, new_file(8, 1) + one, FLUSH, COMPACTION + one, MOVE + one]
    path.write_bytes(log_file(edits))
    version = version_of(Edits(path), 8, 99)
    assert version.files == {15: TableFile(2, 1, 1000, 0), 16: TableFile(1, 1, 1000, 0)}
    assert version.gone == {8: TableFile(1, 1, 1000, 0)}
    assert [version.family_of(number) for number in (15, 8, 12, 1)] == ["Kürzel", "Kürzel", "", ""]
    assert (version.knows(8), version.knows(12)) == (True, False)
    path.write_bytes(log_file([*edits, one + numbers(202)]))
    version = version_of(Edits(path), 15)
    assert (version.files, version.gone) == ({}, {15: TableFile(2, 1, 1000, 0)})


def test_a_newer_form_is_told_from_damage(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST-000005"
    data = log_file([snapshot(), FLUSH, numbers(104, 1), COMPACTION])
    path.write_bytes(data)
    edits = Edits(path)
    assert len(list(edits)) == 2
    assert edits.position == len(log_file([snapshot(), FLUSH]))
    assert "tag 104 is not known (a newer release wrote it" in edits.stopped and not edits.torn
    path.write_bytes(data[:7] + b"\x7f" + data[8:])
    edits = Edits(path)
    assert list(edits) == [] and "its checksum is wrong" in edits.stopped


EDITS = [snapshot(), FLUSH, new_file(8, 1, key=b"long" * 9000), COMPACTION, MOVE, numbers(400, 21, 5, 9, 0, 0, 0)]


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, len(log_file(EDITS)) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_bytes_that_flip_are_a_reason_and_no_error(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(log_file(EDITS))
    for at, value in flips:
        data[at] = value
    path = tmp_path_factory.getbasetemp() / "MANIFEST-000006"
    path.write_bytes(data)
    edits = Edits(path)
    count = len(list(edits))
    assert count == len(EDITS) or edits.stopped or count < len(EDITS)
    assert edits.position <= len(data)
    version_of(Edits(path))


@given(st.binary(max_size=300))
def test_any_bytes_are_an_edit_or_none(data: bytes) -> None:
    try:
        Version({0: "default"}).apply(read_edit(data))
    except EditError as error:
        assert str(error)


def test_current_names_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("MANIFEST-000005\n", encoding="ascii")
    assert current_manifest(tmp_path) == tmp_path / "MANIFEST-000005"
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-../x\n")
    with pytest.raises(MeasurementError, match="not the name of a MANIFEST"):
        current_manifest(tmp_path)
    (tmp_path / "CURRENT").unlink()
    with pytest.raises(MeasurementError, match="CURRENT: No such file"):
        current_manifest(tmp_path)
