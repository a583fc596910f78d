"""What else was under way: requests of the device when a query's first was handed to it, and jobs."""

from __future__ import annotations

import random

import pytest

from ground.results.jobs import Job, Jobs, RunJobs
from ground.results.query_records import QueryRecord
from ground.results.tail import BesideRow
from ioflame.analysis.tail_beside import Intervals, beside_rows, job_stretches
from ioflame.analysis.tail_groups import Bounds
from ioflame.analysis.tail_strip import strip_of
from tests.tails import SECOND, START, query, request

BOUNDS = Bounds(1_000_000, (90_000, 110_000), START, SECOND // 4, 40)
# A compaction in every other half second.
HALF = SECOND // 2
COMPACTIONS = [(START + at * HALF, START + (at + 1) * HALF) for at in range(0, 20, 2)]


def records(slow_meets: float, seed: int = 7) -> list[QueryRecord]:
    """One query in ten is slow; `slow_meets` of the slow ones, and half of the others, are in a compaction's time."""
    draw = random.Random(seed)
    found = []
    for number in range(4000):
        slow = number % 10 == 0
        inside = draw.random() < (slow_meets if slow else 0.5)
        begin_us = (draw.randrange(10) * 2 + (not inside)) * 5e5 + draw.random() * 4e5
        writes, kib = (8, 512) if inside else (1, 4)
        asked = request(10, 20, 80, reads=2, writes=writes, kib=kib)
        found.append(query(begin_us, 2000 if slow else 100, asked, slow=slow))
    return found


def rows(made: list[QueryRecord]) -> dict[str, BesideRow]:
    return {row.name: row for row in beside_rows([(one, 1.0) for one in made], {"compaction": COMPACTIONS}, BOUNDS)}


def test_a_compaction_beside_slow_queries_is_told_with_an_interval() -> None:
    found = rows(records(0.95))
    job, writes = found["while a compaction ran"], found["writes that the device had"]
    assert [job.tail, job.median] == pytest.approx([95, 50], abs=3) and job.unit == "% of queries"
    assert job.gap is not None and job.gap.leaves_zero and writes.gap is not None and writes.gap.leaves_zero
    assert writes.tail == pytest.approx(8 * 0.95 + 0.05, abs=0.3)
    reads = found["other reads that the device had"]
    assert (reads.tail, reads.median) == (2.0, 2.0) and reads.gap is not None and not reads.gap.leaves_zero


def test_what_is_the_same_for_both_is_no_difference() -> None:
    misses = 0
    for seed in range(40):
        gap = rows(records(0.5, seed))["while a compaction ran"].gap
        assert gap is not None
        misses += gap.leaves_zero
    assert misses <= 6


def test_a_query_without_requests_is_in_the_jobs_alone() -> None:
    made = [one._replace(spans=()) for one in records(0.95)]
    assert list(rows(made)) == ["while a compaction ran"]


def test_stretches_that_overlap_are_one() -> None:
    stretches = Intervals([(10, 20), (15, 30), (40, 50)])
    met = [(9, 10), (9, 11), (29, 35), (30, 40), (31, 41), (49, 60), (50, 60)]
    assert [stretches.meets(*one) for one in met] == [False, True, True, False, True, True, False]


def test_over_the_window_jobs_are_cut_at_its_ends_and_only_the_longest_are_dots() -> None:
    made = sorted(records(0.95), key=lambda one: one.ns)
    slow = [one for one in made if one.slow]
    window = (START + HALF // 2, START + 10 * SECOND)
    strip = strip_of(slow * 5, [(one, 1.0) for one in made], {"compaction": COMPACTIONS}, window)
    assert (len(strip.slow), strip.queries, strip.seconds) == (1500, 2000, 9.75)
    assert strip.jobs[0] == ("compaction", 0.0, 0.25) and len(strip.jobs) == 10
    # Within a compaction the device has 8 writes besides, elsewhere 1.
    inside = [writes for begin, _, writes in strip.beside if 0.8 < begin < 1.1]
    assert inside and all(writes == pytest.approx(8.0) for writes in inside)


def test_a_job_that_still_ran_lasts_as_long_as_the_log_goes() -> None:
    jobs = [Job("flush", 1, 7, 100.0, 101.5), Job("compaction", 2, 8, 102.0)]
    recorded = RunJobs([(0, 90 * SECOND), (SECOND, 91 * SECOND)], Jobs(jobs, [], [], 107.0))
    assert job_stretches(recorded) == {
        "flush": [(10 * SECOND, 11 * SECOND + HALF)], "compaction": [(12 * SECOND, 17 * SECOND)],
    }  # fmt: skip
