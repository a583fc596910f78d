"""Shares that add up, weights that can be read."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viz.weights import exact_weight, percentages, scaled_weight


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(0, 2**70), min_size=1, max_size=30).filter(any), st.integers(0, 4))
def test_percentages_add_up_to_exactly_100_and_none_is_far_off(weights: list[int], decimals: int) -> None:
    printed = [Decimal(text) for text in percentages(weights, decimals)]
    assert sum(printed) == 100
    for weight, shown in zip(weights, printed, strict=True):
        assert abs(float(shown) - 100 * weight / sum(weights)) <= 10**-decimals + 1e-9


def test_three_thirds() -> None:
    assert percentages([1, 1, 1]) == ["33.34", "33.33", "33.33"]


def test_the_published_row_is_reproduced() -> None:
    published = [37.30, 3.76, 7.07, 3.05, 5.19, 18.35, 2.28, 3.74, 19.26]
    assert [float(text) for text in percentages(published)] == published


def test_a_zero_stays_zero() -> None:
    assert percentages([0, 5]) == ["0.00", "100.00"]
    assert percentages([0, 0]) == ["0.00", "0.00"]


@pytest.mark.parametrize(
    ("weight", "unit", "text"),
    [
        (1_234_000_000, "ns", "1.234 s"),
        (1_500_000, "ns", "1.500 ms"),
        (1_500, "ns", "1.500 us"),
        (999, "ns", "999 ns"),
        (4_640_123_456, "cycles", "4.640 G cycles"),
        (17, "page-faults", "17 page-faults"),
        (2_500, "page-faults", "2.500 k page-faults"),
    ],
)
def test_scaled_weight(weight: int, unit: str, text: str) -> None:
    assert scaled_weight(weight, unit) == text


def test_an_exact_weight_keeps_its_last_digit() -> None:
    assert exact_weight(2**63 + 1, "cycles") == "9,223,372,036,854,775,809 cycles"
