"""Parts of a comparison: what bars a verdict, whose reads a device's are, least squares, runs made before."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from ground.results.differences import Decision, Outcome, PositionEffect, Variances
from ground.results.record import RunRecord
from ioflame.analysis.compare.bars import of_position, of_twin, position_effect
from ioflame.analysis.compare.figures import ArmWindow, Session
from ioflame.analysis.compare.linear import solve
from ioflame.analysis.compare.own_reads import of_the_process
from ioflame.analysis.compare.planning import DELTAS, plan
from ioflame.analysis.compare.runs import compare_runs
from ioflame.analysis.compare.verdict import Costs, VerdictRule, decide, unpaired
from tests.records import window
from tests.viz.runs import record


def sessions(first: float, count: int = 6) -> list[Session]:
    """Blocks of A and B, of which B has 1.2 of A; the first arm of a block has `first` of what it has elsewhere."""
    dice = random.Random(3)
    found: list[Session] = []
    for _ in range(count):
        blocks = []
        for order in ("ABBA", "BAAB"):
            of = [(1.2 if arm == "B" else 1.0) * (first if arm == order[0] else 1.0) for arm in order]
            blocks.append(
                [ArmWindow(arm, {"qps": x * math.exp(dice.gauss(0, 1e-4))}) for arm, x in zip(order, of, strict=True)]
            )
        found.append(blocks)
    return found


def test_a_place_in_the_block_is_told_from_an_arm() -> None:
    still = position_effect(sessions(1.0), "qps")
    assert still is not None and still.low < 1 < still.high and of_position(still, 0.02) == []
    found = position_effect(sessions(0.9), "qps")
    assert found is not None and found.ratio == pytest.approx(0.9, abs=0.002) and found.sessions == 6
    assert of_position(found, 0.02) == ["the first place in a block differs from the others by -10 %"]
    assert position_effect(sessions(0.9, 1), "qps") is None and position_effect(sessions(1.0), "cpuPer") is None


def test_a_place_that_differs_by_less_than_matters_bars_nothing() -> None:
    assert of_position(PositionEffect(1.009, 1.008, 1.0099, 6), 0.02) == []
    assert of_position(PositionEffect(1.02, 1.011, 1.03, 6), 0.02) != []


def twin(ratio: float) -> Decision:
    sides = [[x * scale for x in (1.0, 1.001, 0.999, 1.0)] for scale in (100, 100 * ratio)]
    rule = VerdictRule(0.02, (1,))
    return decide("qps", unpaired(sides[0], sides[1], rule.confidence), rule, Costs(60, 24))


def test_a_twin_that_differs_from_its_own_like_bars_a_verdict() -> None:
    assert of_twin(twin(1.0), 0.02) == []
    assert of_twin(twin(1.05), 0.02) == [f"the twin of {twin(1.05).base} differs from it by 5 %"]
    assert of_twin(replace(twin(1.0), difference=None), 0.02) == []


def test_reads_of_a_device_are_those_of_the_process_by_bytes() -> None:
    shared = window(
        "plain", storage_reads=1000, storage_read_bytes=8_000_000, storage_read_ms=80, process_read_bytes=6_000_000
    )
    own = of_the_process(shared).counters
    assert (own.storage_reads, own.storage_read_bytes, own.storage_read_ms) == (750, 6_000_000, 60)
    # Latency and size of a request stay those of all.
    assert own.storage_read_ms / own.storage_reads == 80 / 1000
    # What came from the page cache is no read of the device.
    cached = replace(shared, counters=replace(shared.counters, process_read_bytes=9_000_000))
    assert of_the_process(cached).counters.storage_reads == 1000
    nothing = window("plain", queries=5)
    assert of_the_process(nothing) is nothing


def test_least_squares_find_the_line_and_leave_out_what_others_explain() -> None:
    xs = [(1.0, 2.0), (2.0, 1.0), (-1.0, 0.5), (-2.0, -3.5)]
    ys = [3 * a - 2 * b for a, b in xs]
    products = [[sum(x[i] * x[j] for x in xs) for j in range(2)] for i in range(2)]
    cross = [sum(x[i] * y for x, y in zip(xs, ys, strict=True)) for i in range(2)]
    coefficients, inverse, rank = solve(products, cross)
    assert coefficients == pytest.approx([3, -2]) and rank == 2
    for i in range(2):
        row = [sum(products[i][k] * inverse[k][j] for k in range(2)) for j in range(2)]
        assert row == pytest.approx([float(i == j) for j in range(2)])
    # The second column is twice the first: it says nothing of its own.
    doubled = [[products[0][0] * a * b for b in (1, 2)] for a in (1, 2)]
    coefficients, inverse, rank = solve(doubled, [cross[0], 2 * cross[0]])
    assert rank == 1 and coefficients == pytest.approx([cross[0] / products[0][0], 0]) and inverse[1] == [0, 0]


def test_a_plan_has_the_power_that_was_asked_for_or_says_that_it_has_not() -> None:
    clear = plan(Variances(0.001, 0.01, 0.01), Costs(60, 24), 0.1)
    assert clear.reached and clear.power >= 0.8 and clear.looks[0] >= 2
    assert clear.minutes == pytest.approx(clear.sessions * (60 + 24 * clear.blocks) / 60)
    assert clear.expected_minutes <= clear.minutes and 0.1 in DELTAS
    hopeless = plan(Variances(0.3, 0.3, 0.3), Costs(60, 24), 0.005)
    assert not hopeless.reached and hopeless.power < 0.8


def runs(*slower: float) -> list[RunRecord]:
    """A run for each, with so much of the first one's CPU; those of 1 are of build a."""
    found = []
    for place, factor in enumerate(slower):
        made = record(tools={"engine": "7.8.3", "engine_artifact": "a" if factor == 1 else "b"})
        made.metrics["cpuPer"] *= factor * (1 + 0.001 * (place % 3))
        found.append(made)
    return found


def test_runs_that_are_alike_are_repeats_of_one_arm() -> None:
    found = compare_runs(runs(1, 1.2, 1, 1.2, 1, 1.2), 0.02)
    assert found.arms == [[0, 2, 4], [1, 3, 5]] and found.bars == []
    (decisions,) = found.decisions
    assert decisions["cpuPer"].outcome is Outcome.REGRESSED
    assert decisions["qps"].outcome in (Outcome.SAME, Outcome.UNDECIDED)
    base, arm = decisions["cpuPer"].base_value, decisions["cpuPer"].arm_value
    assert base and arm and arm / base == pytest.approx(1.2, rel=0.01)


def test_one_run_a_side_is_no_verdict_and_another_workload_none_either() -> None:
    (decisions,) = compare_runs(runs(1, 1.2), 0.02).decisions
    assert (decisions["cpuPer"].outcome, decisions["cpuPer"].why) == (
        Outcome.UNDECIDED, ("one run a side: another would tell",),
    )  # fmt: skip
    one, other = runs(1, 1)
    found = compare_runs([one, replace(other, threads=4)], 0.02)
    assert found.arms == [[0], [1]] and found.bars == ["threads differs"]
    assert {one.outcome for one in found.decisions[0].values()} == {Outcome.NOT_COMPARABLE}
    assert compare_runs([one, replace(other, threads=4)], 0.02, factor="threads").bars == []
