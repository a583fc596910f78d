from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collectors.queries import QueryReport
from ground.errors import MeasurementError
from workloads.engines.rocksdb.engine import RocksDB

SECOND = 1_000_000_000


class Writer:
    """Writes a report as db_bench does, at moments we choose on CLOCK_MONOTONIC."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Of the moment with the least between the two readings: whoever runs instead of us meanwhile is in the others.
        readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(100)]
        before, at, after = min(readings, key=lambda reading: reading[2] - reading[0])
        self.offset = at - (before + after) // 2

    def append(self, text: str, at: int) -> None:
        with self.path.open("a") as file:
            file.write(text)
        os.utime(self.path, ns=(at + self.offset, at + self.offset))


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "report.csv")


def test_queries_between_two_reports_are_interpolated(writer: Writer) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    report.poll()
    assert report.begun is False
    start = time.monotonic_ns()
    writer.append("secs_elapsed,interval_qps\n", start)
    report.poll()
    assert report.begun is True
    assert report.started_ns == pytest.approx(start, abs=SECOND // 1000)
    writer.append("1,1000\n", start + SECOND)
    report.poll()
    writer.append("2,3000\n", start + 2 * SECOND)
    report.poll()
    assert report.rates == [1000, 3000]
    for seconds, queries in ((0.001, 1), (0.5, 500), (1.0, 1000), (1.5, 2500), (1.999, 3997)):
        # the clocks' offset is taken twice, microseconds apart
        assert report.at(start + int(seconds * SECOND)) == pytest.approx(queries, abs=1)


def test_moments_outside_the_report_have_no_count(writer: Writer) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    start = time.monotonic_ns()
    writer.append("secs_elapsed,interval_qps\n", start)
    report.poll()
    assert report.at(start + SECOND) is None
    assert report.at(start - SECOND) is None
    assert QueryReport(writer.path, RocksDB().parse_report).at(start) is None


def test_lines_that_came_between_two_polls_share_the_last_ones_moment(writer: Writer) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    start = time.monotonic_ns()
    writer.append("secs_elapsed,interval_qps\n", start)
    report.poll()
    writer.append("1,1000\n2,3000\n", start + 2 * SECOND)
    report.poll()
    assert report.started_ns == pytest.approx(start, abs=SECOND // 1000)
    assert report.rates == [1000, 3000]
    assert report.at(start + 2 * SECOND - SECOND // 1000) == pytest.approx(3998, abs=1)
    assert report.at(start + SECOND) == pytest.approx(2000, abs=1)


def test_a_report_first_seen_with_a_second_in_it_has_no_known_begin(writer: Writer) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    writer.append("secs_elapsed,interval_qps\n1,1000\n", time.monotonic_ns())
    report.poll()
    assert report.begun and report.started_ns is None
    assert report.seconds == 1


def test_seconds_that_are_all_there_at_the_first_look_are_counted(writer: Writer) -> None:
    """On a busy host the first look comes late: that the engine lasted is known by its lines."""
    report = QueryReport(writer.path, RocksDB().parse_report)
    writer.append("secs_elapsed,interval_qps\n1,1000\n2,1000\n3,1000\n", time.monotonic_ns())
    report.poll()
    assert report.seconds == 3


def test_half_a_line_waits_for_its_end(writer: Writer) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    start = time.monotonic_ns()
    writer.append("secs_elapsed,interval_qps\n1,10", start)
    report.poll()
    assert report.rates == []
    writer.append("00\n", start + SECOND)
    report.poll()
    assert report.rates == [1000]


@pytest.mark.parametrize("line", ["1\n", "1,many\n", "second one\n"])
def test_a_report_of_another_form_is_an_error_and_no_count(writer: Writer, line: str) -> None:
    report = QueryReport(writer.path, RocksDB().parse_report)
    writer.append("secs_elapsed,interval_qps\n" + line, time.monotonic_ns())
    with pytest.raises(MeasurementError, match="without a number of interval_qps"):
        report.poll()


def test_an_engine_that_was_stopped_finished_nothing_meanwhile(writer: Writer) -> None:
    """1,000 queries a second; stopped from 1.5 s on for 10 s; its reporter, whose second is over, reports at once."""
    report = QueryReport(writer.path, RocksDB().parse_report)
    start = time.monotonic_ns()
    stopped, went_on = start + 3 * SECOND // 2, start + 23 * SECOND // 2
    writer.append("secs_elapsed,interval_qps\n", start)
    report.poll()
    writer.append("1,1000\n", start + SECOND)
    report.poll()
    report.paused(stopped, went_on)
    writer.append("12,501\n", went_on + SECOND // 1000)
    report.poll()
    writer.append("13,1000\n", went_on + SECOND // 1000 + SECOND)
    report.poll()
    for moment, queries in ((start + SECOND, 1000), (stopped, 1500), (went_on, 1500), (went_on + SECOND // 2, 2000)):
        assert report.at(moment) == pytest.approx(queries, abs=2)


def test_a_line_that_comes_while_the_file_is_read_has_its_own_moment(writer: Writer) -> None:
    """The file's date is that of its last line, not of the one before: a second too early was seen."""
    start = time.monotonic_ns()
    writer.append("secs_elapsed,interval_qps\n", start)
    late = iter([("1,1000\n", start + SECOND)])

    class Growing(type(writer.path)):  # type: ignore[misc]
        def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
            # Between our look at its date and our reading, as the engine may.
            for text, at in late:
                writer.append(text, at)
            return str(super().read_text(encoding, errors))

    report = QueryReport(Growing(writer.path), RocksDB().parse_report)
    report.poll()
    writer.append("2,1000\n", start + 2 * SECOND)
    report.poll()
    assert report.at(start + SECOND + SECOND // 2) == pytest.approx(1500, abs=2)
