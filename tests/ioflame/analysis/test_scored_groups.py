"""Two groups by their scores: cuts and means by hand."""

from __future__ import annotations

import random

import pytest

from ioflame.analysis.tail_groups import Cuts, Scored, ScoredGroups


def test_groups_are_cut_by_weight_and_means_are_weighted() -> None:
    # Scores 1 to 10; the first five weigh ten each.
    samples = [Scored(score, 10.0 if score <= 5 else 1.0, score % 2, (float(score), 1.0)) for score in range(1, 11)]
    groups = ScoredGroups(samples, 2, Cuts(0.97))
    # 55 in all: 97 % are reached at the ninth, 40 % and 60 % at the third and the fourth.
    assert [one.score for one in groups.upper] == [9, 10]
    assert [one.score for one in groups.middle] == [3, 4]
    assert groups.means() == ([9.5, 1.0], [3.5, 1.0])
    assert (groups.quantile(0.5), groups.quantile(1.0)) == (3, 10)


def test_all_of_one_score_are_of_one_group() -> None:
    samples = [Scored(1.0, 1.0, 0, (1.0,))] * 50 + [Scored(2.0, 1.0, 0, (2.0,))] * 50
    groups = ScoredGroups(samples, 1, Cuts(0.99))
    assert len(groups.upper) == 50 and len(groups.middle) == 100


def test_a_fixed_cut_may_leave_nobody() -> None:
    groups = ScoredGroups([Scored(1.0, 1.0, 0, (1.0,))], 1, Cuts(0.99, at=5.0))
    assert groups.upper == [] and groups.means() == ([0.0], [1.0])
    with pytest.raises(ValueError, match="no samples"):
        ScoredGroups([], 1, Cuts(0.99))


def test_too_few_blocks_have_no_interval() -> None:
    samples = [Scored(float(n), 1.0, n % 7, (1.0,)) for n in range(100)]
    assert ScoredGroups(samples, 7, Cuts(0.9)).differences(50) is None


def test_a_difference_that_is_there_is_found_with_what_it_is() -> None:
    draw = random.Random(3)
    samples = [
        Scored(float(n), 1.0, draw.randrange(40), (draw.gauss(500 if n >= 1950 else 100, 50), 7.0)) for n in range(2000)
    ]
    found = ScoredGroups(samples, 40, Cuts(0.99)).differences(300)
    assert found is not None
    assert found[0].low < 400 < found[0].high
    # 2 x 1.96 x 50 / sqrt(20), and a little for the other group.
    assert 35 < found[0].high - found[0].low < 60
    assert (found[1].estimate, found[1].low, found[1].high, found[1].n) == pytest.approx((0.0, 0.0, 0.0, 40))
