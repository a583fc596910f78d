from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.interval import Interval
from ground.text.units import truncate
from ioflame.analysis.bootstrap import Draws, Resamples, median, share_draws, share_intervals
from tests.ioflame.analysis.test_cells import experiment, table

PUBLISHED = [row for row in table("io-efficiency.tsv") if row["io.eff"]]


def efficiency(name: str, row: dict[str, str]) -> float:
    """A column of our experiment, of a row of the published table; of fio's latency that is 91 + 11 us."""
    column = next(one for one in experiment("io-efficiency").columns if one.name == name)
    figures = {
        "last.iops": row["iops"], "last.usPerRead": row["usPer"], "last.cpuPerRead": row["cpuPer"],
        "last.io.lat": row["io.lat"], "fio.iops": row["fio.iops"], "fio.us_per": row["fio.usPer"],
        "fio.cpu_per": row["fio.cpuPer"], "fio.lat": "102", "users.us": f"{row['users']}e6",
    }  # fmt: skip
    found = column.value({name: float(value) for name, value in figures.items() if value})
    assert found is not None
    return found


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['test']}-{row['users']}")
def test_the_derived_columns_recompute_as_published(row: dict[str, str]) -> None:
    for column in ("io.eff", "us.inc", "cpu.inc"):
        # The figures have three decimals: a binary difference would fall below the last one when cut.
        assert truncate(round(efficiency(column, row), 9)) == row[column], column
    # rx.lat is the query's latency as the client sees it, not the device's.
    assert int(row["users"]) * 1e6 / float(row["qps"]) == pytest.approx(float(row["rx.lat"]), abs=0.02)


def test_the_posts_model_and_the_better_one() -> None:
    """1e6/(device + cpu): the post takes 91 + 11 us of fio, and is 8.5 to 9.7 % too high; io.lat + cpuPer is nearer."""
    rows = [row for row in PUBLISHED if row["users"] == "1"]
    assert [round(efficiency("fio+inc", row), 1) for row in rows] == [9063.7, 9123.5, 9213.7]
    assert [round(efficiency("fio+inc off %", row), 1) for row in rows] == [8.5, 9.6, 9.7]
    assert [round(efficiency("io+cpu", row)) for row in rows] == [8316, 8096, 8514]


def test_truncation_is_not_rounding_and_the_median_is_the_middle() -> None:
    assert [truncate(one) for one in (0.8448, "10.2929", -0.0009)] == ["0.844", "10.292", "-0.000"]
    assert (median([3, 1, 2]), median([4, 1, 2, 3])) == (2, 2.5)
    with pytest.raises(ValueError, match="no values"):
        median([])


def ratio(totals: Mapping[str, float]) -> float:
    return totals["part"] / totals["whole"]


def slices(parts: Sequence[float], wholes: Sequence[float]) -> list[dict[str, float]]:
    return [{"part": part, "whole": whole} for part, whole in zip(parts, wholes, strict=True)]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(1, 100)), min_size=5, max_size=80))
def test_an_interval_lies_within_what_was_seen_and_is_the_same_again(pairs: list[tuple[float, float]]) -> None:
    seen = slices([a for a, _ in pairs], [b for _, b in pairs])
    interval = Resamples([seen], resamples=200).pooled(ratio).interval()
    assert interval is not None and interval.n == len(pairs)
    assert interval.estimate == pytest.approx(sum(a for a, _ in pairs) / sum(b for _, b in pairs))
    assert min(p / w for p, w in pairs) - 1e-9 <= interval.low <= interval.high <= max(p / w for p, w in pairs) + 1e-9
    assert interval == Resamples([seen], resamples=200).pooled(ratio).interval()


def test_constant_slices_leave_no_doubt_and_few_slices_leave_none_to_say() -> None:
    assert Resamples([slices([2.0] * 10, [4.0] * 10)]).median(ratio).interval() == Interval(0.5, 0.5, 0.5, 10)
    assert Resamples([slices([1.0] * 4, [1.0] * 4)]).median(ratio).interval() is None
    with pytest.raises(ValueError, match="no slices"):
        Resamples([[]])
    # The ratio of two figures that rise and fall together is certain, however uncertain each is.
    noisy = Resamples([slices([1.0, 9.0, 3.0, 7.0, 5.0, 2.0], [1.0] * 6)])
    one, twice = noisy.median(ratio), noisy.median(lambda totals: 2 * ratio(totals))
    alone = one.interval()
    assert alone is not None and alone.low < alone.estimate < alone.high
    assert Draws.combined(lambda a, b: b / a, one, twice).interval() == Interval(2.0, 2.0, 2.0, 6)


def test_a_share_is_as_uncertain_as_its_seconds_differ_not_as_its_samples_are_many() -> None:
    """Half of the seconds are all of one row, the other half all of the other: n samples would say +- 0.1 points."""
    bursts = [[10**6, 0, 0], [0, 10**6, 0]] * 10
    first, second, none = share_intervals([bursts])
    assert first is not None and second is not None and first.estimate == second.estimate == 50.0
    assert first.low < 35 and first.high > 65
    assert none == Interval(0.0, 0.0, 0.0, 20)
    steady = share_intervals([[[300, 700, 0]] * 10, [[300, 700, 0]] * 10])
    assert steady[0] == Interval(30.0, 30.0, 30.0, 20)
    pooled = share_draws([[[1, 0]] * 5, [[0, 3]] * 5])  # by weight, not the mean of 100 % and 0 %
    assert [d.estimate for d in pooled] == [25.0, 75.0]
    assert share_intervals([]) == share_intervals([[]]) == []


@pytest.mark.parametrize("repeats", [1, 4])
def test_an_interval_is_as_wide_as_the_deviation_of_slices_and_repeats_says(repeats: int) -> None:
    """Of 40 slices around 5 with a variance of 2, in repeats whose levels are apart with a variance of 20: by hand."""
    levels = [0.0] if repeats == 1 else [6.0, -6.0, 2.0, -2.0]
    groups = [slices([5 + level + i % 5 - 2 for i in range(40)], [1.0] * 40) for level in levels]
    interval = Resamples(groups, seed=3).pooled(ratio).interval()
    half = 1.96 * math.sqrt((2 / 40 + 20 * (repeats > 1)) / repeats)
    assert interval is not None and interval.estimate == 5
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)


def test_intervals_that_overlap_may_differ_all_the_same() -> None:
    """Errors of 1 each: the intervals part at 3.9, while a difference is seen from 2.8 on, 1.96 of its own errors."""
    draw = random.Random(1)

    def around(mean: float, n: int = 20) -> Draws:
        return Draws(mean, [draw.gauss(mean, 1) for _ in range(4000)], n)

    first, second = around(10), around(13.3)
    a, b, change = first.interval(), second.interval(), first.change_to(second)
    assert a is not None and b is not None and a.high > b.low
    assert change is not None and change.leaves_zero
    none_seen = first.change_to(around(11.5))
    assert none_seen is not None and not none_seen.leaves_zero
    assert first.change_to(around(20, n=4)) is None


def test_of_few_repeats_a_difference_takes_students_t() -> None:
    """Two repeats a side: sqrt(2 / 1), and the published t of two degrees of freedom in the place of 1.96."""
    draw = random.Random(2)
    first, second = (Draws(0, [draw.gauss(0, 1) for _ in range(1000)], 20, repeats=2) for _ in range(2))
    plain, change = Draws.combined(lambda a, b: b - a, first, second).interval(), first.change_to(second)
    assert plain is not None and change is not None
    assert (change.low, change.high) == pytest.approx(
        [math.sqrt(2) * 4.3027 / 1.95996 * end for end in (plain.low, plain.high)], rel=1e-4
    )
