"""What else was under way: requests of the device when a query's first was handed to it, and jobs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ground.results.jobs import Job, Jobs, RunJobs
from ground.results.query_records import QueryRecord
from ground.results.tail import LEAST_SAMPLES, BesideRow, CpuRow
from ioflame.analysis.tail_detail import Intervals, Undisturbed, beside_rows, cpu_rows, job_stretches, strip_of
from ioflame.analysis.tail_groups import Bounds
from tests.tails import PLACES, SECOND, START, query, request, sample

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
    gaps = [rows(records(0.5, seed))["while a compaction ran"].gap for seed in (1, 2, 3)]
    assert not any(gap is None or gap.leaves_zero for gap in gaps)


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


# ---- on what slow queries use the CPU --------------------------------------------------------------------------------
CHECKSUM, READ = (PLACES[place].owner for place in (4, 5))


def sampled_queries(slow_checksum: float, seed: int = 3) -> list[QueryRecord]:
    """Slow queries of 2 ms on the CPU with two samples each, median ones of 100 us with a sample in five; 20 % of the
    median ones' samples are checksums."""
    draw = random.Random(seed)

    def place(share: float) -> int:
        return 4 if draw.random() < share else 5

    found = []
    for number in range(2000):
        begin = 5000.0 * number
        if number % 10 == 0:
            found.append(query(begin, 2000, *(sample(at, place(slow_checksum)) for at in (500, 1500)), slow=True))
        else:
            found.append(query(begin, 100, *([sample(50, place(0.2))] if number % 5 == 1 else [])))
    return found


def rows_of_cpu(made: list[QueryRecord]) -> tuple[dict[str, CpuRow], tuple[int, int]]:
    counted, sampled = [(one, 1.0) for one in made], [one for one in made if one.sampled]
    found = cpu_rows(counted, sampled, PLACES, BOUNDS)
    assert not found.disturbed
    return {row.category: row for row in found.rows}, found.samples


def test_rows_add_up_to_the_time_on_the_cpu() -> None:
    found, samples = rows_of_cpu(sampled_queries(0.7))
    assert samples == (400, 400) and list(found) == [CHECKSUM, READ]
    assert sum(row.tail_us for row in found.values()) == pytest.approx(2000)
    assert sum(row.median_us for row in found.values()) == pytest.approx(100)
    checksum = found[CHECKSUM]
    assert checksum.tail_us == pytest.approx(1400, rel=0.1) and checksum.median_us == pytest.approx(20, rel=0.3)
    assert checksum.gap is not None and checksum.gap.leaves_zero and checksum.gap.low < 1380 < checksum.gap.high


def test_a_query_of_many_samples_stands_for_all_of_them() -> None:
    made = sampled_queries(0.0)
    long = query(0, 20_000, *(sample(1000 * at, 4) for at in range(1, 9)), slow=True)._replace(sampled=20)
    found, samples = rows_of_cpu([*made, long])
    assert samples == (420, 400)
    assert found[CHECKSUM].tail_us == pytest.approx((200 * 2000 + 20_000) / 201 * 20 / 420)


def test_of_too_few_samples_nothing_is_told() -> None:
    made = sampled_queries(0.5)[: 10 * LEAST_SAMPLES // 2 - 10]
    assert rows_of_cpu(made) == ({}, (98, 98))


def test_intervals_hold_what_is_true() -> None:
    """Both groups with the same shares: the difference of shares is zero, and the cost of checksums differs by it."""
    truth = 0.2 * 2000 - 0.2 * 100
    gaps = [rows_of_cpu(sampled_queries(0.2, seed))[0][CHECKSUM].gap for seed in (1, 2, 3)]
    # Of 400 samples of the slow ones a fifth: +-1.96 x 2 % of 2 ms.
    assert all(gap and gap.low <= truth <= gap.high and 100 < gap.high - gap.low < 220 for gap in gaps)


def test_what_a_sample_takes_is_taken_off_what_was_sampled() -> None:
    """Queries of 6 to 8 us, of which each sampled one is 9.5 us longer."""
    draw = random.Random(2)
    made = [query(100.0 * at, 6 + 2 * draw.random()) for at in range(4000)]
    counted = [(one, 1.0) for one in made[::2]]
    disturbed = [one._replace(end_ns=one.end_ns + 9_500, weight=0, sampled=1) for one in made[1::2]]
    found = Undisturbed.of(counted, disturbed, slow=1_000_000)
    assert found.each_ns == pytest.approx(9_500, abs=200)
    assert found.ns(disturbed[0]) == pytest.approx(made[1].ns, abs=200)
    long = disturbed[0]._replace(end_ns=disturbed[0].begin_ns + 2_000_000)
    assert found.ns(long) == 2_000_000
    assert Undisturbed.of(counted, [], 1_000_000).each_ns == 0.0
    # Most have several samples: such queries are long beside one.
    several = [one._replace(sampled=2) for one in disturbed[:1001]]
    assert Undisturbed.of(counted, [*several, *disturbed[1001:]], 1_000_000).each_ns == 0.0


def test_where_too_few_samples_would_be_left_they_are_told_as_disturbed() -> None:
    """Of a busy host: most that were sampled once took far longer than median ones, and for other reasons."""
    made = sampled_queries(0.2)
    draw = random.Random(4)
    busy = [query(6000.0 * at, draw.uniform(400, 950), sample(50, 5)) for at in range(600)]
    counted, sampled = [(one, 1.0) for one in made], [*(one for one in made if one.sampled), *busy]
    taken_off = Undisturbed.of(counted, sampled, BOUNDS.slow)
    assert taken_off.each_ns > 300_000
    found = cpu_rows(counted, sampled, PLACES, BOUNDS)
    assert (found.disturbed, found.samples, found.undisturbed.each_ns) == (True, (400, 400), 0.0)
    assert {row.category for row in found.rows} == {CHECKSUM, READ}


def test_rows_stay_without_intervals_where_blocks_are_too_few() -> None:
    short = replace(BOUNDS, blocks=3)
    made = sampled_queries(0.2)
    found = cpu_rows([(one, 1.0) for one in made], [one for one in made if one.sampled], PLACES, short)
    assert [(row.category, row.gap) for row in found.rows] == [(READ, None), (CHECKSUM, None)]
