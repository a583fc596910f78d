"""A count by a client's own lines, with the moments at which they came."""

from __future__ import annotations

import re

import pytest

from collectors.printed_count import PrintedCount
from ground.errors import MeasurementError

SECOND = 1_000_000_000
RATE = re.compile(r"^at (?P<seconds>[\d.]+): (?P<rate>\S+) a second")
TOTAL = re.compile(r"(?P<total>[\d,]+) operations")


def test_a_rate_is_that_of_the_time_since_the_line_before() -> None:
    count = PrintedCount("lines", RATE, 0)
    with pytest.raises(MeasurementError, match="none yet"):
        count.count.read()
    count.seen("a header", 0)
    assert count.begun_ns is None and count.at(SECOND) is None
    count.seen("at 1.0: 999 a second", 11 * SECOND)
    assert count.begun_ns == 10 * SECOND, "by its own clock"
    count.seen("at 2.0: 100 a second", 12 * SECOND)
    count.seen("at 3.0: 300 a second", 13 * SECOND)
    first, last = count.at(11 * SECOND), count.at(13 * SECOND)
    assert first is not None and last is not None and last - first == pytest.approx(400)
    assert count.at(12 * SECOND + SECOND // 2) == pytest.approx(250)
    assert count.at(13 * SECOND + 1) is None and count.at(10 * SECOND) is None, "no line says so"


def test_lines_that_came_at_once_are_told_apart_by_the_clients_clock() -> None:
    count = PrintedCount("lines", RATE, 0)
    for seconds, moment in ((1, 1), (2, 4), (3, 4), (4, 4), (5, 5)):
        count.seen(f"at {seconds}.0: 100 a second", moment * SECOND)
    assert count.at(5 * SECOND) == pytest.approx(400)
    # A tenth that was rounded is no late line: our own clock is finer.
    finer = PrintedCount("lines", RATE, 0)
    finer.seen("at 1.0: 100 a second", SECOND)
    finer.seen("at 2.1: 100 a second", SECOND + 1_040_000_000)
    assert finer.at(SECOND + 1_040_000_000) == pytest.approx(104)


def test_seconds_since_another_moment_than_its_beginning_say_no_more_than_how_long_it_was_between_two_lines() -> None:
    """pgbench --progress-timestamp: its seconds are those since 1970."""
    count = PrintedCount("lines", RATE, 7 * SECOND)
    for seconds, moment in ((1700000000.1, 8), (1700000001.1, 11), (1700000002.1, 11), (1700000003.1, 11)):
        count.seen(f"at {seconds}: 100 a second", moment * SECOND)
    assert count.begun_ns == 7 * SECOND and count.at(11 * SECOND) == pytest.approx(300)


def test_a_total_is_taken_as_it_is() -> None:
    count = PrintedCount("lines", TOTAL, 0)
    count.seen("1,000 operations", SECOND)
    count.seen("5,000 operations", 3 * SECOND)
    assert count.at(2 * SECOND) == pytest.approx(3000) and count.count.read() == 5000


@pytest.mark.parametrize(
    ("pattern", "lines", "says"),
    [
        (
            RATE,
            ["at 1: 5 a second", "at 2: nan a second"],
            "printed 'nan' in 'at 2: nan a second', which is not a number",
        ),
        (RATE, ["at 1: x a second"], "it printed 'x'"),
        (TOTAL, ["9 operations", "3 operations"], "it went down, from 9 to 3"),
    ],
)
def test_what_is_no_count_ends_it(pattern: re.Pattern[str], lines: list[str], says: str) -> None:
    count = PrintedCount("lines", pattern, 0)
    for number, line in enumerate(lines):
        count.seen(line, number * SECOND)
    assert says in count.failed
    values = count.at(0)
    count.seen("at 9: 7 a second", 9 * SECOND)
    assert count.at(0) == values, "what was counted before stays"
