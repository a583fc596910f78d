"""What is said of records before anybody believes them, and requests that make no sense."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.tail import TailRequest, record_checks, tail_observer
from ground.errors import UsageError
from ground.results.checks import Verdict
from ground.results.histogram import Histogram
from ground.results.query_records import Recorded
from ground.system.process import Children
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


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (TailRequest(1, sample=0), "--sample 0 is not a number of queries"),
        (TailRequest(1, threshold_us=0), "a threshold of 0 us is not a duration"),
        (TailRequest(1, keep="some"), "--keep some is not known"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(tmp_path: Path, request_: TailRequest, says: str) -> None:
    with Children() as children, pytest.raises(UsageError, match=says):
        tail_observer(request_, children, tmp_path)
