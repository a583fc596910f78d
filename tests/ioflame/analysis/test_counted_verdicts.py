"""Verdicts on counts: ranges that do not overlap, what instructions alone would get wrong, and which
of a time and a count is to be believed."""

from __future__ import annotations

from itertools import combinations

import pytest

from ground.results.counted import Counted, Event
from ground.results.differences import Decision, Outcome
from ioflame.analysis.counted_verdicts import Against, CountVerdict, against, not_repeatable, spread, which_to_believe

OPERATIONS = 1000


def counted(instructions: list[float], mispredictions: float = 50.0, locked: float = 14.0) -> Counted:
    """Of an operation, by padding."""
    counts = [round(one * OPERATIONS) for one in instructions]
    flat = {Event.MISPREDICTIONS: mispredictions, Event.LOCKED: locked}
    events = {event: [round(one * OPERATIONS)] * len(counts) for event, one in flat.items()}
    return Counted(OPERATIONS, {Event.INSTRUCTIONS: counts, **events}, again=counts[0])


NARROW = [13_000.0, 13_000.2, 13_000.4]


@pytest.mark.parametrize(
    ("arm", "verdict", "doubted"),
    [
        (counted(NARROW), CountVerdict.SAME, False),
        (counted([one + 0.3 for one in NARROW]), CountVerdict.SAME, False),
        # A change that is seen, and that nobody would act on: put-wal took 0.16 % more.
        (counted([one + 20 for one in NARROW]), CountVerdict.SLIGHT, False),
        (counted([one - 20 for one in NARROW]), CountVerdict.SLIGHT, False),
        (counted([one + 140 for one in NARROW]), CountVerdict.MORE, False),
        (counted([one - 140 for one in NARROW]), CountVerdict.FEWER, False),
        # Mispredictions fall on one host and rise on another: they change no verdict, and make it doubtful. Here they
        # outweigh the instructions, as in LZ4 of RocksDB 10.6; then they only speak against them.
        (counted([one - 400 for one in NARROW], 100.0), CountVerdict.FEWER, True),
        (counted([one + 400 for one in NARROW], 10.0), CountVerdict.MORE, True),
        (counted([one + 400 for one in NARROW], 100.0), CountVerdict.MORE, False),
        (counted([one + 900 for one in NARROW], 30.0), CountVerdict.MORE, True),
        (counted([one - 900 for one in NARROW], 70.0), CountVerdict.FEWER, True),
        (counted(NARROW, 90.0), CountVerdict.SAME, True),
        (counted([one - 20 for one in NARROW], locked=20.0), CountVerdict.SLIGHT, True),
        # A few of them say nothing; nor as few as code that lies elsewhere makes.
        (counted([one + 900 for one in NARROW], 49.0), CountVerdict.MORE, False),
        (counted([one + 20 for one in NARROW], 49.7), CountVerdict.SLIGHT, False),
        (counted(NARROW, 49.7), CountVerdict.SAME, False),
        (Counted(lacks="none in this version"), CountVerdict.NOT_COUNTED, False),
    ],
)
def test_a_verdict_rests_on_instructions_and_others_cast_doubt(
    arm: Counted, verdict: CountVerdict, doubted: bool
) -> None:
    found = against(counted(NARROW), arm)
    assert (found.verdict, found.doubted) == (verdict, doubted)


def test_a_change_is_that_of_the_medians_and_says_what_could_be_told() -> None:
    found = against(counted(NARROW), counted([13_020.1, 13_020.3, 13_021.5]))
    assert found.more == pytest.approx(20.1)
    assert found.change == pytest.approx(20.1 / 13_000.2)
    assert found.tells == pytest.approx(1.4 / 13_020.3)
    assert spread(counted(NARROW), Event.ALLOCATIONS) is None


def test_noise_is_told_apart_as_often_as_chance_has_it() -> None:
    """Of the 252 ways to give ten counts to two builds, two part them: the published table of Mann and Whitney."""
    counts = [13_000 + 5.0 * place for place in range(10)]
    pairs = [(chosen, [one for one in counts if one not in chosen]) for chosen in combinations(counts, 5)]
    verdicts = [against(counted([*first], 0, 0), counted(second, 0, 0)).verdict for first, second in pairs]
    assert len(verdicts) == 252 and sum(one is not CountVerdict.SAME for one in verdicts) == 2


def test_a_padding_counted_twice_agrees() -> None:
    one = counted(NARROW)
    assert not_repeatable(one) is None
    one.again += OPERATIONS * 2
    assert not_repeatable(one) == pytest.approx(2 / 13_000)
    assert not_repeatable(one, 1e-3) is None
    assert not_repeatable(Counted()) is None


# ---- beside a time ---------------------------------------------------------------------------------------------------
MORE = Against(CountVerdict.MORE, change=0.07)
FEWER = Against(CountVerdict.FEWER, change=-0.07)
DOUBTED = Against(CountVerdict.FEWER, change=-0.05, doubted=True)
SAME = Against(CountVerdict.SAME, change=0.00001)


def told(outcome: Outcome) -> Decision:
    return Decision("usPer", "A", "B", outcome, None, 0.02, 1, 2)


@pytest.mark.parametrize(
    ("time", "count", "says"),
    [
        (Outcome.REGRESSED, MORE, "7.00% more instructions, more user CPU: both agree; the time says what it costs"),
        (Outcome.IMPROVED, FEWER, "7.00% fewer instructions, less user CPU: both agree"),
        (Outcome.REGRESSED, FEWER, "7.00% fewer instructions, but more user CPU: believe the time; the cause is"),
        (Outcome.REGRESSED, SAME, "same instructions, but more user CPU: believe the time; the cause is"),
        (Outcome.SAME, SAME, "same instructions, same user CPU within 2 %: both agree"),
        (Outcome.SAME, MORE, "same user CPU within 2 %: the code changed, by too little"),
        (Outcome.UNDECIDED, MORE, "7.00% more instructions; the time is undecided here: believe the count"),
        (Outcome.NOT_COMPARABLE, SAME, "same instructions; the time is undecided here: believe the count"),
        (Outcome.IMPROVED, DOUBTED, "mispredictions or locks say otherwise; less user CPU: believe the time"),
        (
            Outcome.UNDECIDED,
            DOUBTED,
            "the time is undecided here: neither is to be believed before the time",
        ),
        (Outcome.IMPROVED, Against(CountVerdict.NOT_COUNTED), "not counted; there is the time alone"),
    ],
)
def test_each_case_has_its_words(time: Outcome, count: Against, says: str) -> None:
    assert says in which_to_believe(told(time), count)
    assert which_to_believe(None, MORE).endswith("believe the count, for the code alone")
