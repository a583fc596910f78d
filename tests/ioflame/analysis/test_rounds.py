"""Turns: what an observer cost, and intervals by how rounds differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from ground.results.profile import Slices
from ground.results.record import Target, Window
from ioflame.analysis.metric_intervals import intervals_of
from ioflame.analysis.rounds import ProfiledRounds, costs_of, host_change, interval_of, observer_costs, slices_by_turn
from tests.records import run_record, window

Noise = Callable[[random.Random], Callable[[], float]]


def run_of(*turns: tuple[str, float, int]) -> list[Window]:
    """Windows of a second one after the other: kind, queries, round."""
    made = [window(kind, 1, "", at, queries=queries) for at, (kind, queries, _) in enumerate(turns)]
    for one, (_, _, number) in zip(made, turns, strict=True):
        one.round = number
    return made


def in_turns(rounds: int, of: Callable[[str, int], float], *kinds: str) -> list[Window]:
    """of: queries of a turn, by its kind and its place among all."""
    turns: list[tuple[str, float, int]] = []
    for number in range(1, rounds + 1):
        for kind in kinds:
            for one in ("plain", kind):
                turns.append((one, of(one, len(turns)), number))
    return run_of(*turns, ("plain", of("plain", len(turns)), rounds))


def test_an_observer_is_held_against_the_plain_turns_beside_it_alone() -> None:
    """A host that grows faster all the time is no observer's doing."""
    rates = {"plain": 100.0, "perf": 90.0, "null": 100.0}
    costs = observer_costs(in_turns(5, lambda kind, at: rates[kind] * (1 + at), "perf", "null"))
    assert [(cost.kind, cost.qps_ratio.n) for cost in costs] == [("perf", 5), ("null", 5)]
    for cost, ratio in zip(costs, (0.9, 1.0), strict=True):
        found = cost.qps_ratio
        assert found.estimate == pytest.approx(ratio) and found.high - found.low == pytest.approx(0, abs=1e-9)


def test_how_a_host_changes_is_what_null_cost_or_every_second_plain_turn() -> None:
    uneven = iter([100.0, 120.0] * 20)
    made = in_turns(6, lambda kind, _: next(uneven) if kind == "plain" else 90.0, "perf")
    found = host_change(made, observer_costs(made))
    assert found is not None and (found.kind, found.qps_ratio.n) == ("null", 3)
    assert found.qps_ratio.estimate == pytest.approx(1.2) and found.qps_ratio.leaves_one
    with_null = in_turns(4, lambda kind, _: {"null": 101.0}.get(kind, 100.0), "perf", "null")
    found = host_change(with_null, observer_costs(with_null))
    assert found is not None and found == next(cost for cost in observer_costs(with_null) if cost.kind == "null")
    # Six plain turns are two of which each has one on both sides.
    for too_few in (in_turns(5, lambda *_: 100.0, "perf"), run_of(*[("plain", 100.0, 0), ("perf", 90.0, 0)] * 8)):
        assert host_change(too_few, observer_costs(too_few)) is None


def test_one_rate_for_all_windows_says_nothing_of_their_costs() -> None:
    made = in_turns(5, lambda *_: 100.0, "perf", "null")
    counted = run_record(windows=made, target=Target("--pid 1", "p", [1], count="psql"))
    costs, host = costs_of(counted)
    assert [cost.kind for cost in costs] == ["perf", "null"] and host is not None
    sampled = run_record(windows=made, target=Target("--pid 1", "p", [1], count="calls", count_sampled=True))
    assert costs_of(sampled) == ([], None)


def test_turns_that_scatter_widen_the_interval_by_t() -> None:
    """By hand: five turns of equal length beside turns of 100; t of 4 degrees of freedom is 2.776."""
    on = iter([80.0, 100.0, 90.0, 85.0, 95.0])
    (cost,) = observer_costs(in_turns(5, lambda kind, _: next(on) if kind == "perf" else 100.0, "perf"))
    error = math.sqrt(sum((one - 0.9) ** 2 for one in (0.8, 1.0, 0.9, 0.85, 0.95)) / (5 * 4))
    error *= math.sqrt((1 + 4 / 15) / (1 - 4 / 60))  # four plain turns lie between two of perf
    assert cost.qps_ratio.estimate == pytest.approx(0.9)
    assert cost.qps_ratio.high - 0.9 == pytest.approx(2.7764 * error, rel=1e-3)


def test_a_window_of_its_own_is_as_uncertain_as_plain_windows_differ() -> None:
    plain = [100.0, 120.0, 100.0, 120.0, 100.0]
    turns = [("plain", plain[0], 0)]
    for kind, rate, beside in zip(("perf", "iolat", "pmp", "null"), (99.0, 99.0, 55.0, 99.0), plain[1:], strict=True):
        turns += [(kind, rate, 0), ("plain", beside, 0)]
    costs = {cost.kind: cost.qps_ratio for cost in observer_costs(run_of(*turns))}
    assert all(costs[kind].low < 1 < costs[kind].high for kind in ("perf", "iolat", "null"))
    assert costs["pmp"].high < 1 and costs["pmp"].n == 4
    # Two plain windows say nothing of how they differ.
    assert observer_costs(run_of(("plain", 100, 0), ("perf", 90, 0), ("plain", 100, 0))) == []


def test_turns_whose_queries_are_not_known_are_left_out() -> None:
    made = in_turns(4, lambda kind, _: 90.0 if kind == "perf" else 100.0, "perf")
    made[1].counters.queries = None
    (cost,) = observer_costs(made)
    assert cost.qps_ratio.n == 3 and cost.qps_ratio.estimate == pytest.approx(0.9)


def _share_of_nothings(noise: Noise, runs: int, *kinds: str) -> float:
    """How often an interval of nothing attached excludes 1."""
    draw, wrong = random.Random(7), 0
    for _ in range(runs):
        rate = noise(draw)

        def queries(*_: object, rate: Callable[[], float] = rate) -> float:
            return 1000 * rate()

        made = in_turns(6, queries, *kinds)
        costs = observer_costs(made)
        if "null" not in kinds:
            costs = [change for change in [host_change(made, costs)] if change is not None]
        for cost in costs:
            wrong += not cost.qps_ratio.low <= 1 <= cost.qps_ratio.high
    return wrong / runs / (len(kinds) if "null" in kinds else 1)


def _independent(draw: random.Random) -> Callable[[], float]:
    return lambda: draw.lognormvariate(0, 0.2)


def _drifting(draw: random.Random) -> Callable[[], float]:
    level = [1.0]

    def rate() -> float:
        level[0] *= draw.lognormvariate(0, 0.1)
        return level[0]

    return rate


def _stalling(draw: random.Random) -> Callable[[], float]:
    return lambda: 0.1 if draw.random() < 0.1 else draw.lognormvariate(0, 0.1)


@pytest.mark.by_hand
@pytest.mark.parametrize("kinds", [["null"], ["null", "perf", "iolat"], ["perf"], ["perf", "iolat", "pmp"]])
@pytest.mark.parametrize("noise", [_independent, _drifting, _stalling])
def test_nothing_is_called_an_effect_about_as_often_as_meant(noise: Noise, kinds: list[str]) -> None:
    assert _share_of_nothings(noise, 3000 // len(kinds), *kinds) < 0.07


def test_figures_vary_as_their_rounds_do() -> None:
    made = in_turns(4, lambda _, at: 100 + at // 4 * 10, "perf", "null")
    record = run_record(windows=made, threads=2)
    qps = intervals_of(record, [])["qps"]
    assert qps.n == 4 and qps.estimate == pytest.approx(sum(w.counters.queries or 0 for w in made[::2]) / 9)
    assert qps.low < qps.estimate < qps.high
    wild = in_turns(4, lambda _, at: 1 if at else 500, "perf", "null")
    qps = intervals_of(run_record(windows=wild, threads=2), [])["qps"]
    assert qps.low == 0 < qps.estimate < qps.high


def _slices(begins: Iterable[float], length: float = 1.0) -> Slices:
    columns = [(number, 0, 1) for number in range(len(list(begins)))]
    number, stack, weight = (list(column) for column in zip(*columns, strict=True))
    return Slices(
        length_ns=int(length * 1e9), start_ns=500_000_000, slice=number, stack=stack, weight=weight, samples=weight
    )


def test_each_slice_of_a_profile_belongs_to_one_turn() -> None:
    made = in_turns(3, lambda *_: 100.0, "perf")
    # Turns of perf are seconds 1, 3 and 5; slices begin at 0.5.
    turns = [[one] for one in made if one.kind == "perf"]
    assert slices_by_turn(_slices(range(7)), turns) == [[0, 1], [2, 3], [4, 5]]


def test_us_of_a_category_hold_what_varies_of_its_share_and_of_the_cpu() -> None:
    made = in_turns(4, lambda *_: 1000.0, "perf")
    for at, one in enumerate(made):
        one.counters.cpu_ns = 10**7 * (1 + at % 3)
    rounds = ProfiledRounds.of(run_record(windows=made), _slices(range(9)))
    assert rounds is not None
    own, every = [1, 2, 3, 4, 1, 2, 3, 4, 0], [10] * 9
    share, us = rounds.share(own, every), rounds.us(own, every, 20.0)
    assert share is not None and us is not None
    assert share.estimate == pytest.approx(25.0) and us.estimate == pytest.approx(20.0 * 20 / 90)
    assert (us.high - us.low) / us.estimate > 0
    assert interval_of([{"own": 1, "all": 2}] * 2, lambda sums: sums["own"] / sums["all"]) is None
