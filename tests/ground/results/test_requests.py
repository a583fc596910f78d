"""Requests one by one: rows of a file, and what their numbers mean."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ground.errors import MeasurementError
from ground.results.requests import NOTHING, Request, read_requests, request_rows
from ground.system.atomic_files import write_json
from tests.requests import row, told


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
