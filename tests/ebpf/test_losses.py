"""Losses in words, and which of them are more than a note."""

from __future__ import annotations

import pytest

from ebpf.losses import loss_checks, losses_words, missed_checks, unseen_verdict
from ground.results.checks import Verdict


def test_counts_of_0_are_left_out_and_own_words_come_first() -> None:
    losses = {"no_end": 1200, "negative": 0, "overflow": 2, "lost_rung": 3}
    words = "ended without an end that was seen: 1,200, longer than 137 s: 2, lost_rung 3"
    assert losses_words(losses, {"overflow": "longer than 137 s:"}) == words
    assert losses_words({"no_end": 0}) == ""


@pytest.mark.parametrize(
    ("lost", "verdict"), [(2, Verdict.NOTE), (10, Verdict.NOTE), (11, Verdict.WARN), (200, Verdict.WARN), (201, None)]
)
def test_few_unseen_requests_are_a_note_and_many_are_a_loss(lost: int, verdict: Verdict | None) -> None:
    assert unseen_verdict(lost, 10_000) is verdict
    assert unseen_verdict(2, 10) is Verdict.NOTE


def test_what_was_lost_and_what_was_odd_are_two_checks() -> None:
    lost, odd = loss_checks("writes", {"lost_wait": 1}, {"nested": 2}, Verdict.FAILED, "a map was full", "--sample")
    assert (lost.name, lost.verdict) == ("writes losses", Verdict.FAILED)
    assert (lost.value, lost.means) == ("lost_wait 1", "a map was full")
    assert (odd.name, odd.verdict, odd.value) == ("writes oddities", Verdict.NOTE, "nested 2")
    (none,) = loss_checks("writes", {"lost_wait": 0}, {"nested": 0}, Verdict.FAILED, "a map was full")
    assert (none.verdict, none.value) == (Verdict.OK, "none")


@pytest.mark.parametrize(("missed", "verdict"), [(3, Verdict.NOTE), (50, Verdict.WARN), (300, Verdict.FAILED)])
def test_events_that_were_missed_are_judged_by_their_share(missed: int, verdict: Verdict) -> None:
    (check,) = missed_checks("ladder", missed, 10_000, "followed queries")
    assert (check.name, check.verdict) == ("ladder missed", verdict)
    assert check.value.endswith(f"already running on that CPU: {missed}, in 10,000 followed queries")
    assert not list(missed_checks("ladder", 0, 0, "followed queries"))
