"""Times of an observer's window stand for those of the plain ones where it ran as they did."""

from __future__ import annotations

import pytest

from ground.results.interval import Interval
from ground.results.metrics import carried
from ground.results.record import ObserverCost
from tests.records import run_record, window


@pytest.mark.parametrize(
    ("queries", "factor", "words"),
    [(100.0, 1.0, ""), (95.0, 0.95, ""), (50.0, 1.0, "at 50 % of the baseline windows' rate")],
)
def test_a_window_at_nine_tenths_of_the_rate_is_carried_over(queries: float, factor: float, words: str) -> None:
    record = run_record(windows=[window("plain", queries=100.0), window("ladder", queries=queries)])
    found = carried(record, "ladder")
    assert found.factor == pytest.approx(factor) and words in found.words and bool(words) == found.is_disturbed


def test_a_slow_window_that_chance_or_the_host_explains_was_not_disturbed() -> None:
    windows = [window("plain", queries=100.0), window("ladder", queries=50.0)]
    chance, slower = (ObserverCost("ladder", Interval(0.5, 0.2, high, 5)) for high in (1.1, 0.8))
    host = ObserverCost("null", Interval(1.9, 1.1, 2.6, 6))
    assert carried(run_record(windows=windows, costs=[chance]), "ladder") == (0.5, 0.5, False)
    assert carried(run_record(windows=windows, costs=[slower]), "ladder") == (0.5, 1.0, True)
    assert carried(run_record(windows=windows, costs=[slower], host_change=host), "ladder") == (0.5, 0.5, False)


def test_without_queries_nothing_is_carried_over() -> None:
    record = run_record(windows=[window("plain"), window("ladder")])
    assert carried(record, "ladder") == (None, 1.0, False)
