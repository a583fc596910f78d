"""Benchmarks of one process are distinguished by the report: each of them begins it anew."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collectors.counts import Count, QueryCount
from collectors.report_phases import QueriesBesideWriter, ReportPhases
from tests.until import until
from workloads.engines.rocksdb.engine import RocksDB

HEADER = "secs_elapsed,interval_qps\n"


@pytest.fixture
def phases(tmp_path: Path) -> ReportPhases:
    return ReportPhases(tmp_path / "report.csv", RocksDB().parse_report)


def test_a_benchmark_goes_on_until_its_report_is_closed_and_its_count_stays(phases: ReportPhases) -> None:
    assert phases.next() is None
    with phases.path.open("w") as report:
        report.write(HEADER)
        report.flush()
        first = phases.next()
        assert first is not None and first.number == 0 and first.going
        assert phases.next() is None, "it was given before"
        report.write("1,700\n2,900\n")
        report.flush()
        assert first.going and first.operations == 1600 and first.rate == 800
    assert not first.going and phases.ended == 1
    with phases.path.open("w") as report:
        report.write(HEADER + "1,5\n2,5\n3,5\n")
        report.flush()
        second = phases.next()
        assert second is not None and second.number == 1 and second.going and second.operations == 15
        first.ask()
        assert not first.going and first.operations == 1600 and not first.failed


def test_benchmarks_between_two_looks_are_counted(phases: ReportPhases) -> None:
    for _ in range(2):
        phases.path.write_text(HEADER)
    with phases.path.open("w") as report:
        report.write(HEADER)
        report.flush()
        third = phases.next()
        assert third is not None and third.number == 2 and phases.ended == 2


@pytest.mark.parametrize("line", [b"1,many\n", b"\xff\xfe\0garbage\n", b"\n\n,,,\n"])
def test_a_report_of_garbage_ends_the_count_with_its_reason(phases: ReportPhases, line: bytes) -> None:
    with phases.path.open("wb") as report:
        report.write(HEADER.encode() + line)
        report.flush()
        phase = phases.next()
        assert phase is not None and phase.going
        assert "without a number of interval_qps" in phase.failed
        assert phase.at(time.monotonic_ns()) is None and phase.rate == 0


def test_what_a_benchmark_did_in_all_is_known_where_it_was_seen_late(phases: ReportPhases) -> None:
    """It began two reports before the first look, which was a second ago."""
    with phases.path.open("w") as report:
        report.write(HEADER + "1,1000\n2,1000\n")
        report.flush()
        os.utime(phases.path, ns=(time.time_ns() - 10**9,) * 2)
        phase = phases.next()
        assert phase is not None and phase.going and phase.report.started_ns is None
        report.write("3,1000\n")
        report.flush()
        assert phase.going and phase.rate_of_all is None, "it has not ended"
    until(lambda: not phase.going)
    found = phase.rate_of_all
    assert found is not None and found.n == 1 and found.low <= 1000 / 3 < found.estimate < found.high


def test_a_writers_operations_are_taken_off(phases: ReportPhases) -> None:
    written = iter((100.0, 130.0, 190.0))
    with phases.path.open("w") as report:
        report.write(HEADER)
        report.flush()
        every = phases.next()
        assert every is not None
        queries = QueriesBesideWriter(every, writer := QueryCount(Count("writes", lambda: next(written))))
        writer.ask()
        queries.ask()
        begin = time.monotonic_ns()
        writer.ask()
        report.write("1,1000\n")
        report.flush()
        # The clock that dates files has ticks of some ms: the header may be of this one, too.
        os.utime(phases.path, ns=(time.time_ns(),) * 2)
        queries.ask()
        writer.ask()
    read = every.report
    edges = [int(moment) for moment in (begin, read.known.moments[-1])]
    gained = [count.at(edges[1]) or 0.0 for count in (every, writer)]
    assert queries.at(edges[1]) == pytest.approx(gained[0] - gained[1])
    assert queries.failed == "" and queries.at(edges[1] + 10**12) is None
