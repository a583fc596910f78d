"""Steps in simulated series of 30 versions: what is there is found where it is, and nothing where nothing is."""

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


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0.0, 0.2])
def test_where_nothing_changes_nothing_is_reported(rounds: float) -> None:
    draw = Random(f"rounds {rounds}")
    reports = [bool(found([10.0] * VERSIONS, draw, rounds=rounds).features) for _ in range(400)]
    print(f"reports without a step: {100 * sum(reports) / len(reports):.1f} %")
    # 5 % of 400, and 2.3 standard errors of such a count (2,500 series gave 3.9 %).
    assert 0 < sum(reports) <= 20 + 10


@pytest.mark.slow
def test_heavy_tails_and_a_noise_that_is_not_normal_report_as_seldom() -> None:
    draw = Random(2)

    def run() -> Run:
        return Run(0.02 * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2) / 3))

    reports = sum(
        bool(fit_history([[run() for _ in range(REPEATS)] for _ in range(VERSIONS)]).features) for _ in range(300)
    )
    print(f"reports with t3 tails: {100 * reports / 300:.1f} %")
    assert reports <= 15 + 9


@pytest.mark.slow
@pytest.mark.parametrize(("size", "least"), [(4, (0.90, 0.99, 0.99)), (2, (0.0, 0.0, 0.80))])
def test_a_step_is_found_where_it_is(size: float, least: Sequence[float]) -> None:
    draw = Random(3)
    away = []
    for _ in range(300):
        at = draw.randrange(5, 26)
        places = [one.at for one in found(step(size, at), draw).features if not one.dip]
        away.append(min((abs(place - at) for place in places), default=VERSIONS))
    for within, wanted in enumerate(least):
        share = sum(one <= within for one in away) / len(away)
        print(f"step of {size} standard errors within {within}: {100 * share:.1f} %")
        assert share >= wanted


@pytest.mark.slow
def test_one_version_that_is_off_is_a_dip_and_went_away() -> None:
    draw = Random(4)
    hits = 0
    for _ in range(300):
        levels = [10.0] * VERSIONS
        at = draw.randrange(1, VERSIONS - 1)
        levels[at] -= 5 * ERROR
        hits += (at, True, at + 1) in [(one.at, one.dip, one.went_away) for one in found(levels, draw).features]
    print(f"dip of 5 standard errors: {100 * hits / 300:.1f} %")
    assert hits / 300 >= 0.90


@pytest.mark.slow
def test_the_interval_of_a_step_holds_its_size_and_what_is_undone_went_away() -> None:
    draw = Random(5)
    covered = gone = 0
    for _ in range(200):
        levels = [10 + 10 * ERROR * (10 <= place < 20) for place in range(VERSIONS)]
        up, *rest = found(levels, draw).features
        covered += up.low <= math.exp(10 * ERROR) <= up.high
        gone += [one.at for one in rest] == [20] and up.went_away == 20 and not up.candidate
    print(f"covered {covered / 2:.1f} %, told to have gone away {gone / 2:.1f} %")
    assert covered / 200 >= 0.90 and gone / 200 >= 0.85


def test_without_repeats_a_loss_is_a_candidate_and_small_ones_are_not_told() -> None:
    draw = Random(6)
    reports = [found([10.0] * 20, draw, repeats=1) for _ in range(300)]
    assert sum(bool(one.features) for one in reports) <= 15 + 9
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
    flat = sum(
        bool(fit_history([[Run(9 + draw.gauss(0, 0.001))] for _ in range(12)], deviation=0.001).features)
        for _ in range(200)
    )
    # 5 % of 200, and 2.3 standard errors of such a count.
    assert flat <= 10 + 7
    stepped = fit_history([[Run(9 + 0.006 * (at >= 11))] for at in range(12)], deviation=0.001)
    # The newest version alone: without a known deviation a step needs three.
    assert [(one.at, one.candidate) for one in stepped.features] == [(11, False)]
    assert stepped.features[0].low > 1
