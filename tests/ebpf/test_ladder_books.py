"""The books of a ladder: a part that is negative is none, and no run with one is to be used."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ebpf.ladder import ladder_checks
from ground.results.checks import Check, Verdict
from ground.results.ladder import Ladder, LadderDevice
from tests.viz.observers import ladder
from viz.tables.ladder import ladder_section
from viz.terminal.table import section_text


def books(found: Ladder, rx_lat_us: float | None = None) -> dict[str, Check]:
    return {check.name: check for check in ladder_checks(found, rx_lat_us)}


# 1,000 followed queries of 100 us and 4 us of the client's loop; a mean of so many may be off by 9.5 %.
@pytest.mark.parametrize(
    ("rx_lat_us", "verdict"),
    [(104.0, Verdict.OK), (120.0, Verdict.WARN), (98.0, Verdict.WARN), (89.6, Verdict.FAILED)],
)
def test_a_query_that_takes_longer_than_its_clients_clock_says_fails(rx_lat_us: float, verdict: Verdict) -> None:
    assert books(ladder(), rx_lat_us)["ladder and engine"].verdict is verdict
    # The same where only the ladder counts the queries, as in an attached run: 8,000 of one thread.
    seen = replace(ladder(), end_ns=10**9 + round(8000 * rx_lat_us * 1000))
    assert books(seen)["ladder and engine"].verdict is verdict


def test_what_following_costs_is_no_part_of_the_rest() -> None:
    """16 us of a followed query are the probes' own programs: seven of eight queries have none of them."""
    made = ladder()
    stages = [replace(made.stages[0], own_ns=16_000 * made.total.count), *made.stages[1:]]
    slowed = replace(made, stages=stages)
    assert books(slowed, 104 - 14)["ladder and engine"].verdict is Verdict.OK
    text = section_text(ladder_section(slowed, 104 - 14))
    assert re.search("^ *rest +0.00  [+]0.0 % of the latency", text, re.MULTILINE)
    # On a busy CPU, for which the thread waits as long as it has it, it is 32 us of the clock.
    half = made.total.sum_ns // 2
    crowded = replace(slowed, without_cpu_ns=half, run_queue_ns=half)
    assert crowded.rest_ns(104_000 - 28_000) == pytest.approx(0, abs=1)


@pytest.mark.parametrize(
    ("read_ms", "others", "verdict", "words"),
    [
        # 7,000 of 8,000 reads are these queries' and took 60 us each.
        (480, 1000, None, "1,000 of them others'; they took 60 us each"),
        (421, 1000, None, "too little of the device's time to be seen"),
        (350, 1000, Verdict.FAILED, "too little of the device's time to be seen"),
    ],
)
def test_reads_of_others_take_no_negative_time(read_ms: int, others: int, verdict: Verdict | None, words: str) -> None:
    made = replace(ladder(), device=LadderDevice(254, 0, "vda", (8000 - others) // 8, 8000, read_ms))
    check = books(made).get("ladder and device")
    assert (check and check.verdict) == verdict
    text = section_text(ladder_section(made))
    assert words in " ".join(text.split()) and "took -" not in text
