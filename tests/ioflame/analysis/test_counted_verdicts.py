"""Verdicts on counts: ranges that do not overlap, and what instructions alone would get wrong."""

from __future__ import annotations

import random

import pytest

from ground.results.counted import Counted, Event
from ioflame.analysis.counted_verdicts import CountVerdict, against, not_repeatable, spread

OPERATIONS = 1000


def counted(instructions: list[float], mispredictions: float = 50.0, locked: float = 14.0) -> Counted:
    """Of an operation, by padding."""
    counts = [round(one * OPERATIONS) for one in instructions]
    flat = {Event.MISPREDICTIONS: mispredictions, Event.LOCKED: locked}
    events = {event: [round(one * OPERATIONS)] * len(counts) for event, one in flat.items()}
    return Counted(OPERATIONS, {Event.INSTRUCTIONS: counts, **events}, again=counts[0])


NARROW = [13_000.0, 13_000.2, 13_000.4]


@pytest.mark.parametrize(
    ("arm", "verdict"),
    [
        (counted(NARROW), CountVerdict.SAME),
        (counted([one + 0.3 for one in NARROW]), CountVerdict.SAME),
        (counted([one + 20 for one in NARROW]), CountVerdict.REGRESSED),
        (counted([one - 20 for one in NARROW]), CountVerdict.IMPROVED),
        # Its mispredictions outweigh its instructions, as in LZ4 of RocksDB 10.6.
        (counted([one - 400 for one in NARROW], 100.0), CountVerdict.MIXED),
        (counted([one + 400 for one in NARROW], 10.0), CountVerdict.MIXED),
        # They speak against it, but do not outweigh it.
        (counted([one + 900 for one in NARROW], 30.0), CountVerdict.MORE),
        (counted([one - 900 for one in NARROW], 70.0), CountVerdict.FEWER),
        # A few of them say nothing.
        (counted([one + 900 for one in NARROW], 49.0), CountVerdict.REGRESSED),
        (counted(NARROW, 90.0), CountVerdict.MIXED),
        # As few as code that lies elsewhere makes.
        (counted([one + 20 for one in NARROW], 49.7), CountVerdict.REGRESSED),
        (counted(NARROW, 49.7), CountVerdict.SAME),
        (counted([one - 20 for one in NARROW], locked=20.0), CountVerdict.MIXED),
        (Counted(lacks="none in this version"), CountVerdict.NOT_COUNTED),
    ],
)
def test_a_verdict_takes_more_than_instructions(arm: Counted, verdict: CountVerdict) -> None:
    assert against(counted(NARROW), arm).verdict is verdict


def test_a_change_is_that_of_the_medians_and_says_what_could_be_told() -> None:
    found = against(counted(NARROW), counted([13_020.1, 13_020.3, 13_021.5]))
    assert found.more == pytest.approx(20.1)
    assert found.change == pytest.approx(20.1 / 13_000.2)
    assert found.tells == pytest.approx(1.4 / 13_020.3)
    assert spread(counted(NARROW), Event.ALLOCATIONS) is None


def test_noise_is_told_apart_as_often_as_chance_has_it() -> None:
    # Two ranges of five that do not overlap: 2 in 252.
    draw = random.Random(7)
    told = 0
    for _ in range(20_000):
        pair = [counted([draw.gauss(13_000, 5) for _ in range(5)], 0, 0) for _ in range(2)]
        told += against(*pair).verdict is not CountVerdict.SAME
    assert told / 20_000 == pytest.approx(2 / 252, abs=4 * (2 / 252 / 20_000) ** 0.5)


def test_a_padding_counted_twice_agrees() -> None:
    one = counted(NARROW)
    assert not_repeatable(one) is None
    one.again += OPERATIONS * 2
    assert not_repeatable(one) == pytest.approx(2 / 13_000)
    assert not_repeatable(one, 1e-3) is None
    assert not_repeatable(Counted()) is None
