"""Times of an observer's window stand for those of the plain ones where it ran as they did."""

from __future__ import annotations

import pytest

from ground.results.metrics import carried
from tests.records import run_record, window


@pytest.mark.parametrize(
    ("queries", "factor", "words"),
    [(100.0, 1.0, ""), (95.0, 0.95, ""), (50.0, 1.0, "at 50 % of the baseline windows' rate")],
)
def test_a_window_at_nine_tenths_of_the_rate_is_carried_over(queries: float, factor: float, words: str) -> None:
    record = run_record(windows=[window("plain", queries=100.0), window("ladder", queries=queries)])
    found = carried(record, "ladder")
    assert found.factor == pytest.approx(factor) and words in found.words and bool(words) == found.is_disturbed


def test_without_queries_nothing_is_carried_over() -> None:
    record = run_record(windows=[window("plain"), window("ladder")])
    assert carried(record, "ladder") == (None, 1.0)
