"""The interval of a share against published values."""

from __future__ import annotations

import pytest

from ground.results.interval import wilson


def test_wilson() -> None:
    # published: 8 of 10 gives 0.4902 to 0.9433; 0 of 20 gives 0 to 0.1611
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0.5, 0) == (0.0, 1.0)
    assert wilson(1.0, 5)[1] == 1.0
