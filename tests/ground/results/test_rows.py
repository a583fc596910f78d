"""Files of rows as the programs write them: every field where it says it is, and files that are none."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ground.errors import MeasurementError
from ground.results.files_at_paths import PACKED, FileAtPath, write_files_at_paths
from ground.results.query_records import BLOCKED, PARTS, Recorded, Span, read_query_records, read_recorded
from ground.results.requests import NOTHING, Request, read_requests, request_rows
from ground.results.tail import KIND_OF_PART, KINDS, read_tail
from ground.system.atomic_files import write_json
from tests.requests import row, told
from tests.tails import STATE_NAMES, file_bytes, naps, query, recorded, tail, wait


def test_what_was_written_is_read(tmp_path: Path) -> None:
    request = Span(5, 15, 70, 0, 0, 1, 0, 0, 0, 8192, 254 << 20 | 1)
    one = query(3, 100, request, wait(10, 80, 90, "io", 3, who=9, awaited=1), slow=True, reads=2, tid=4711)
    path = tmp_path / "records.bin"
    path.write_bytes(file_bytes([one, query(500, 40)]))
    found = read_query_records(path)
    assert found.records == [one, query(500, 40)]
    assert (found.states, found.clocks) == (STATE_NAMES, (1, 2))
    first = found.records[0]
    assert first.ns == sum(first.parts) == 100_000 and first.parts[PARTS.index("device")] == 70_000
    assert [span.is_request for span in first.spans] == [True, False] and list(first.waits) == [first.spans[1]]


def test_many_records_are_read_one_by_one(tmp_path: Path) -> None:
    _, file = naps(20_000)
    path = tmp_path / "records.bin"
    path.write_bytes(file_bytes(file.records))
    assert read_query_records(path) == file


def test_each_part_of_the_file_has_a_kind_of_row() -> None:
    assert PARTS[BLOCKED] == "blocked" and set(KIND_OF_PART) == set(PARTS) - {"blocked"}
    assert set(KIND_OF_PART.values()) | {"lock", "condition", "sleep"} == set(KINDS)


def test_records_of_before_io_limits_were_seen_are_read(tmp_path: Path) -> None:
    path, known = tmp_path / "records.bin", [query(0, 10, wait(1, 2, 3, "io", 1))]
    path.write_bytes(file_bytes([known[0]._replace(parts=known[0].parts[:-1])], parts=list(PARTS[:-1])))
    assert read_query_records(path).records == known


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-1], "its last record is cut short"),
        (lambda data: data[:20], "is no file of records"),
        (lambda data: b"x" + data[1:], "it does not begin as one"),
        (lambda data: data[:8] + b"\x02" + data[9:], "schema 2; this ioflame reads schema 1"),
        (lambda _: file_bytes([], parts=["on_cpu"]), "a query has other parts: on_cpu"),
        (lambda _: file_bytes([], span={"bytes": 4, "fields": [["at", "I", 0]]}), "a span has other fields: at"),
        (lambda _: b"", "is no file of records"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, change: Callable[[bytes], bytes], says: str) -> None:
    path = tmp_path / "records.bin"
    path.write_bytes(change(file_bytes([query(0, 10, wait(1, 2, 3, "io", 1))])))
    with pytest.raises(MeasurementError, match=says):
        read_query_records(path)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    given: Recorded = recorded([query(0, 10)], 10)
    write_json(tmp_path / "records.json", given)
    write_json(tmp_path / "tail.json", tail())
    assert read_recorded(tmp_path / "records.json") == given and given.seconds == 10.0
    assert read_tail(tmp_path / "tail.json") == tail()


def written(place: Path, rows: list[Request]) -> Path:
    path = place / "rows"
    path.write_bytes(b"".join(struct.pack("<QQIIIIIIIBBBB", *one) for one in rows))
    return path


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [row(offset=2**40, bytes=4096), row(file=NOTHING, found=3, operation=2)]
    requests = told(rows)
    write_json(tmp_path / "requests.json", requests)
    assert read_requests(tmp_path / "requests.json") == requests
    assert list(request_rows(written(tmp_path, rows), requests)) == rows


@pytest.mark.parametrize(
    "bad", [row(thread=9), row(file=9), row(operation=5), row(found=6), row(submitter=3)], ids=lambda one: str(one[6:])
)
def test_numbers_that_stand_for_nothing_are_refused(tmp_path: Path, bad: Request) -> None:
    with pytest.raises(MeasurementError, match="names what its run does not know"):
        list(request_rows(written(tmp_path, [bad]), told([bad])))


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="holds 48 bytes, not 2 requests of 48"):
        list(request_rows(written(tmp_path, [row()]), told([row(), row()])))


def test_a_line_each_and_none_for_a_path_that_would_be_two(tmp_path: Path) -> None:
    files = [
        FileAtPath("/usr/lib/a library.so", 254, 1, 1314, "0aff"),
        FileAtPath("/opt/none", 0, 35, 7),
        FileAtPath("/tmp/x\n254:1 99 0aff /usr/lib/libc.so.6", 254, 1, 8),
        FileAtPath("/tmp/no \udcff UTF-8", 254, 1, 9),
    ]
    write_files_at_paths(tmp_path / PACKED, files)
    assert (tmp_path / PACKED).read_bytes() == (
        b"ioflame-files 1\n254:1 1314 0aff /usr/lib/a library.so\n0:35 7 - /opt/none\n254:1 9 - /tmp/no \xff UTF-8\n"
    )
