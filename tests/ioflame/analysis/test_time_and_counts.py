"""What a time and a count say together: which of them is to be believed, in every case."""

from __future__ import annotations

import pytest

from ground.results.differences import Decision, Outcome
from ioflame.analysis.counted_verdicts import Against, CountVerdict
from ioflame.analysis.time_and_counts import which_to_believe

MORE = Against(CountVerdict.REGRESSED, change=0.07)
FEWER = Against(CountVerdict.FEWER, change=-0.07)
MIXED = Against(CountVerdict.MIXED, change=-0.05)
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
        (Outcome.IMPROVED, MIXED, "mispredictions or locks say otherwise; less user CPU: believe the time"),
        (
            Outcome.UNDECIDED,
            MIXED,
            "say otherwise; the time is undecided here: neither is to be believed before the time",
        ),
        (Outcome.IMPROVED, Against(CountVerdict.NOT_COUNTED), "not counted; there is the time alone"),
    ],
)
def test_each_case_has_its_words(time: Outcome, count: Against, says: str) -> None:
    assert says in which_to_believe(told(time), count)


def test_without_a_time_the_count_is_of_the_code_alone() -> None:
    assert which_to_believe(None, MORE).endswith("believe the count, for the code alone")
