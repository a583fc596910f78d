"""Steps in series of 30 versions: what is there is found where it is, and nothing where nothing is. With fixed seeds;
how often is a figure of test_simulated.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest

from ground.results.history import Fit
from ioflame.analysis.change_points import Run, fit_history

VERSIONS, REPEATS = 30, 6
# Of one run; of a version of REPEATS runs it is ERROR.
SD = 0.03
ERROR = SD / math.sqrt(REPEATS)


def found(levels: Sequence[float], draw: Random, *, rounds: float = 0.0, repeats: int = REPEATS) -> Fit:
    """The fit of one simulated series; rounds: how far rounds that hold all versions are apart."""
    of_round = [draw.gauss(0, rounds) for _ in range(repeats)]

    def runs(level: float) -> list[Run]:
        return [Run(level + of_round[r] + draw.gauss(0, SD), f"r{r}" * (rounds > 0)) for r in range(repeats)]

    return fit_history([runs(level) for level in levels])


def step(size: float, at: int) -> list[float]:
    return [10 + size * ERROR * (place >= at) for place in range(VERSIONS)]


@pytest.mark.parametrize("rounds", [0.0, 0.2])
def test_where_nothing_changes_nothing_is_reported(rounds: float) -> None:
    draw = Random(f"rounds {rounds}")
    assert sum(bool(found([10.0] * VERSIONS, draw, rounds=rounds).features) for _ in range(20)) <= 2


def test_a_step_is_found_where_it_is_with_its_size() -> None:
    draw = Random(3)
    for at in (5, 14, 25):
        (feature,) = found(step(6, at), draw).features
        assert (feature.at, feature.dip, feature.candidate) == (at, False, False)
        assert feature.low < math.exp(6 * ERROR) < feature.high
    # By hand: levels of 2 x 3 runs whose means are ln 2 apart, and deviations of 0.1, 0 and -0.1 in each version.
    (feature,) = fit_history([[Run(level + off) for off in (0.1, 0.0, -0.1)] for level in (0, 0, 1, 1)]).features
    # The published t of 0.975 for 8 degrees of freedom, and a variance of 0.02 / 2 over 6 and 6 runs.
    half = 2.306 * math.sqrt(0.01 * 2 / 6)
    assert [math.log(end) for end in (feature.low, feature.high)] == pytest.approx([1 - half, 1 + half], abs=1e-4)


def test_one_version_that_is_off_is_a_dip_and_went_away() -> None:
    draw = Random(4)
    for at in (1, 13, VERSIONS - 2):
        levels = [10 - 7 * ERROR * (place == at) for place in range(VERSIONS)]
        assert (at, True, at + 1) in [(one.at, one.dip, one.went_away) for one in found(levels, draw).features]


def test_what_is_undone_went_away() -> None:
    levels = [10 + 10 * ERROR * (10 <= place < 20) for place in range(VERSIONS)]
    up, down = found(levels, Random(5)).features
    assert (up.at, up.went_away, down.at, down.went_away) == (10, 20, 20, None)


def test_without_repeats_a_loss_is_a_candidate_and_small_ones_are_not_told() -> None:
    draw = Random(6)
    assert sum(bool(found([10.0] * 20, draw, repeats=1).features) for _ in range(20)) <= 2
    fit = found([10.0 - 0.5 * (place == 17) for place in range(20)], draw, repeats=1)
    (dip,) = fit.features
    assert (dip.at, dip.dip, dip.candidate, fit.repeated) == (17, True, True, False)
    assert dip.high < 0.75 and dip.low < math.exp(-0.5) < dip.high


def test_series_that_have_no_scatter_or_hardly_any_version() -> None:
    assert fit_history([[Run(1.0)] * 3] * 5).features == []
    # The last digit of rounded figures is no step.
    assert fit_history([[Run(math.log(0.99 if place == 7 else 1.0))] for place in range(20)]).features == []
    assert fit_history([[Run(1.0), Run(1.1)]]).features == []
    one = fit_history([[Run(1.0), Run(1.0), Run(1.01)], [Run(2.0), Run(2.01), Run(2.0)]])
    assert [(feature.at, feature.went_away) for feature in one.features] == [(1, None)]
    with pytest.raises(ValueError, match="a version without a run"):
        fit_history([[]])


def test_where_the_deviation_is_known_one_run_of_each_version_is_enough() -> None:
    draw = Random(7)
    flat = [fit_history([[Run(draw.gauss(9, 0.001))] for _ in range(12)], deviation=0.001) for _ in range(20)]
    assert sum(bool(one.features) for one in flat) <= 2
    stepped = fit_history([[Run(9 + 0.006 * (at >= 11))] for at in range(12)], deviation=0.001)
    # The newest version alone: without a known deviation a step needs three.
    assert [(one.at, one.candidate) for one in stepped.features] == [(11, False)]
    assert stepped.features[0].low > 1
