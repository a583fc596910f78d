"""The table that the tests by hand end with."""

from __future__ import annotations

from tests.figures import Figure, of_times


def test_what_was_measured_three_times_has_its_mean_and_students_interval() -> None:
    (row,) = of_times([Figure("a, us", value, None, None, "2") for value in (1.0, 2.0, 3.0)])
    # 2 +- 4.303 / sqrt(3)
    assert row.line() == "a, us, 3 times: 2 [-0.4841, 4.484]   expected 2"


def test_an_interval_of_its_own_stays_and_one_time_has_none() -> None:
    own = [Figure("b", 1.0, 0.5, 1.5, ""), Figure("b", 2.0, 1.5, 2.5, "")]
    assert of_times(own) == own
    assert [row.line() for row in of_times([Figure("c", 7.0, None, None, "")])] == ["c: 7"]
