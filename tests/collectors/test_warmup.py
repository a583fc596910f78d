from __future__ import annotations

import pytest

from collectors.schedule import what_is_missing

CACHE = 16 << 20
FLAT = [100, 9000, 9100, 9050]


def test_a_steady_state_has_nothing_missing() -> None:
    assert what_is_missing(FLAT, [40_000, 5, 3, 0], 2 * CACHE, CACHE) == []
    assert what_is_missing(FLAT, [0, 5000, 5100, 5050], 2 * CACHE, CACHE) == []  # an allocator that gives back: steady
    assert what_is_missing(FLAT, [0, 0, 0, 0], 0, 0) == []  # everything in the cache: nothing has to be read


@pytest.mark.parametrize(
    ("rates", "faults", "read", "says"),
    [
        (FLAT, [0, 0, 0, 0], CACHE, "the cache was filled 1.0 times"),
        ([100, 5000, 7000, 9000], [0, 0, 0, 0], 2 * CACHE, "QPS was still changing"),
        (FLAT[:3], [0, 0, 0], 2 * CACHE, "QPS was still changing"),  # two whole seconds after the first
        (FLAT, [0, 4000, 2000, 1000], 2 * CACHE, "page faults were not rare or steady"),
        ([0, 0, 0, 0], [0, 0, 0, 0], 2 * CACHE, "QPS was still changing"),
    ],
)
def test_what_speaks_against_it_is_named(rates: list[int], faults: list[int], read: int, says: str) -> None:
    assert says in what_is_missing(rates, faults, read, CACHE)
