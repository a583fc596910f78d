"""On what slow queries use the CPU: how long is exact, on what is sampled."""

from __future__ import annotations

import random

import pytest

from ground.results.query_records import QueryRecord
from ground.results.tail import CpuRow
from ioflame.analysis.tail_cpu import LEAST_SAMPLES, Undisturbed, cpu_rows
from ioflame.analysis.tail_groups import Bounds
from tests.tails import PLACES, SECOND, START, query, sample

BOUNDS = Bounds(1_000_000, (90_000, 110_000), START, SECOND // 4, 40)
CHECKSUM, READ = (PLACES[place].owner for place in (4, 5))


def records(slow_checksum: float, seed: int = 3) -> list[QueryRecord]:
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


def rows(made: list[QueryRecord]) -> tuple[dict[str, CpuRow], tuple[int, int]]:
    counted, sampled = [(one, 1.0) for one in made], [one for one in made if one.sampled]
    undisturbed = Undisturbed.of(counted, sampled, BOUNDS.slow)
    found, samples = cpu_rows(counted, sampled, undisturbed, PLACES, BOUNDS)
    return {row.category: row for row in found}, samples


def test_rows_add_up_to_the_time_on_the_cpu() -> None:
    found, samples = rows(records(0.7))
    assert samples == (400, 400) and list(found) == [CHECKSUM, READ]
    assert sum(row.tail_us for row in found.values()) == pytest.approx(2000)
    assert sum(row.median_us for row in found.values()) == pytest.approx(100)
    checksum = found[CHECKSUM]
    assert checksum.tail_us == pytest.approx(1400, rel=0.1) and checksum.median_us == pytest.approx(20, rel=0.3)
    assert checksum.gap.leaves_zero and checksum.gap.low < 1380 < checksum.gap.high


def test_a_query_of_many_samples_stands_for_all_of_them() -> None:
    made = records(0.0)
    long = query(0, 20_000, *(sample(1000 * at, 4) for at in range(1, 9)), slow=True)._replace(sampled=20)
    found, samples = rows([*made, long])
    assert samples == (420, 400)
    assert found[CHECKSUM].tail_us == pytest.approx((200 * 2000 + 20_000) / 201 * 20 / 420)


def test_of_too_few_samples_nothing_is_told() -> None:
    made = records(0.5)[: 10 * LEAST_SAMPLES // 2 - 10]
    assert rows(made) == ({}, (98, 98))


def test_intervals_hold_as_often_as_they_say() -> None:
    """Both groups with the same shares: the difference of shares is zero, and the cost of checksums differs by it."""
    truth = 0.2 * 2000 - 0.2 * 100
    held = [
        one.gap.low <= truth <= one.gap.high for seed in range(40) for one in [rows(records(0.2, seed))[0][CHECKSUM]]
    ]
    assert sum(held) >= 34


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
