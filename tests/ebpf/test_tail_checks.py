"""What is said of records before anybody believes them, and requests that make no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebpf.tail import record_checks
from ground.results.checks import Verdict
from ground.results.histogram import Histogram
from ground.results.query_records import Recorded
from tests.tails import naps


@pytest.fixture
def given() -> Recorded:
    return naps(2000)[0]


def verdicts(given: Recorded) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in record_checks(given)}


def test_a_sound_window_has_nothing_to_complain_of(given: Recorded) -> None:
    assert set(verdicts(given).values()) == {Verdict.OK}
    (cost,) = [check.value for check in record_checks(given) if check.name == "tail cost"]
    # Put together from parts: it is called what it is.
    assert cost.startswith("at least, estimated: traps 12,000 queries/s x 1.25 us: 0.7 % of a CPU; programs, measured")


@pytest.mark.parametrize(
    ("instead", "name", "verdict"),
    [
        ({"losses": {"lost_slow": 3}}, "tail losses", Verdict.WARN),
        ({"losses": {"unread": 3}}, "tail losses", Verdict.FAILED),
        ({"losses": {"missed_in": 3}}, "tail oddities", Verdict.NOTE),
        ({"losses": {"missed": 1}}, "tail missed", Verdict.NOTE),
        ({"still_open": 1}, "tail oddities", Verdict.NOTE),
        ({"uneven": 2}, "tail sum", Verdict.FAILED),
        ({"process_ended": True}, "tail window", Verdict.WARN),
        ({"process_ended": True, "ended_soon_s": 0.8}, "tail window", Verdict.FAILED),
        ({"histogram": Histogram()}, "tail queries", Verdict.FAILED),
    ],
)
def test_what_is_wrong_is_said(given: Recorded, instead: dict[str, object], name: str, verdict: Verdict) -> None:
    assert verdicts(replace(given, **instead))[name] is verdict  # type: ignore[arg-type]


def test_dear_traps_are_said(given: Recorded) -> None:
    assert verdicts(replace(given, pilot=replace(given.pilot, trap_share=0.04)))["tail cost"] is Verdict.WARN
