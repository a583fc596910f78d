"""The report of a client: how many queries it had finished at any moment."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from collectors.queries import QueryReport
from ground.errors import MeasurementError
from workloads.engines.rocksdb.engine import RocksDB

SECOND, MS = 1_000_000_000, 1_000_000
START = 500 * SECOND
# CLOCK_REALTIME less CLOCK_MONOTONIC
OFFSET = 1_700_000_000 * SECOND
HEADER = "secs_elapsed,interval_qps\n"


class Writer:
    """Writes a report as db_bench does, at moments after START that we choose."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, text: str, after: int = 0) -> None:
        with self.path.open("a") as file:
            file.write(text)
        os.utime(self.path, ns=(START + after + OFFSET,) * 2)


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr("collectors.queries.time", SimpleNamespace(time_ns=lambda: OFFSET, monotonic_ns=lambda: 0))
    return Writer(tmp_path / "report.csv")


def report_of(path: Path) -> QueryReport:
    return QueryReport(path, RocksDB().parse_report)


def test_queries_between_two_reports_are_interpolated_and_outside_of_them_not_known(writer: Writer) -> None:
    report = report_of(writer.path)
    report.poll()
    assert not report.begun and report.at(START) is None
    for second, line in enumerate((HEADER, "1,1000\n", "2,3000\n")):
        writer.append(line, second * SECOND)
        report.poll()
        assert report.begun and report.started_ns == START
    assert (report.rates, report.seconds) == ([1000, 3000], 2)
    known = {0: 0, 1: 1, 500: 500, 1000: 1000, 1500: 2500, 1999: 3997, 2000: 4000}
    assert {ms: report.at(START + ms * MS) for ms in known} == pytest.approx(known)
    assert report.at(START - 1) is report.at(START + 2 * SECOND + 1) is None


def test_lines_that_came_between_two_polls_share_the_last_ones_moment(writer: Writer) -> None:
    report = report_of(writer.path)
    writer.append(HEADER)
    report.poll()
    writer.append("1,1000\n2,3000\n", 2 * SECOND)
    report.poll()
    assert (report.started_ns, report.rates) == (START, [1000, 3000])
    assert report.at(START + 1999 * MS) == pytest.approx(3998) and report.at(START + SECOND) == pytest.approx(2000)


def test_a_report_first_seen_with_seconds_in_it_has_no_known_begin_and_counts_them(writer: Writer) -> None:
    """On a busy host the first look comes late: that the engine lasted is known by its lines."""
    report = report_of(writer.path)
    writer.append(HEADER + "1,1000\n2,1000\n3,1000\n")
    report.poll()
    assert report.begun and report.started_ns is None and report.seconds == 3


def test_half_a_line_waits_for_its_end(writer: Writer) -> None:
    report = report_of(writer.path)
    writer.append(HEADER + "1,10")
    report.poll()
    assert report.rates == []
    writer.append("00\n", SECOND)
    report.poll()
    assert report.rates == [1000]


@pytest.mark.parametrize("line", ["1\n", "1,many\n", "second one\n"])
def test_a_report_of_another_form_is_an_error_and_no_count(writer: Writer, line: str) -> None:
    writer.append(HEADER + line)
    with pytest.raises(MeasurementError, match="without a number of interval_qps"):
        report_of(writer.path).poll()


def test_an_engine_that_was_stopped_finished_nothing_meanwhile(writer: Writer) -> None:
    """1,000 queries a second; stopped from 1.5 s on for 10 s; its reporter, whose second is over, reports at once."""
    report = report_of(writer.path)
    for after, line in ((0, HEADER), (1000, "1,1000\n"), (11_501, "12,501\n"), (12_501, "13,1000\n")):
        writer.append(line, after * MS)
        report.poll()
    report.paused(START + 1500 * MS, START + 11_500 * MS)
    known = {1000: 1000, 1500: 1500, 11_500: 1500, 12_000: 2000}
    assert {ms: report.at(START + ms * MS) for ms in known} == pytest.approx(known)


def test_a_line_that_comes_while_the_file_is_read_has_its_own_moment(writer: Writer) -> None:
    """The file's date is that of its last line, not of the one before: a second too early was seen."""
    writer.append(HEADER)
    late = iter([("1,1000\n", SECOND)])

    class Growing(type(writer.path)):  # type: ignore[misc]
        def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
            # Between our look at its date and our reading, as the engine may.
            for text, after in late:
                writer.append(text, after)
            return str(super().read_text(encoding, errors))

    report = report_of(Growing(writer.path))
    report.poll()
    writer.append("2,1000\n", 2 * SECOND)
    report.poll()
    assert report.at(START + 1500 * MS) == pytest.approx(1500)
