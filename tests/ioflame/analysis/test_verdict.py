from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ground.results.differences import Decision, Difference, Outcome, Variances
from ground.results.metrics import COMPARED
from ioflame.analysis.compare.figures import ArmWindow, BlockLogs, Session
from ioflame.analysis.compare.nested import Confidence, difference, sign_flip_p, sums_of
from ioflame.analysis.compare.order import session_orders
from ioflame.analysis.compare.planning import plan_table
from ioflame.analysis.compare.verdict import (
    Costs,
    VerdictRule,
    among_arms,
    compare,
    decide,
    discovery_bound,
    false_discovery,
    unpaired,
)
from ioflame.analysis.quantiles import chi_squared_tail, t_quantile, t_tail
from tests.ioflame.analysis import worlds
from tests.ioflame.analysis.worlds import Device, World, compared, steady

COSTS = Costs(60, 24)


# Abramowitz and Stegun, tables 26.10 and 26.8.
@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [(0.95, 1, 12.706), (0.99, 3, 5.841), (0.98, 4, 3.747), (0.95, 10, 2.228), (0.99, 15, 2.947), (0.99, 120, 2.617)],
)
def test_t_is_that_of_the_tables(confidence: float, freedom: float, t: float) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(t, abs=6e-4)
    assert t_tail(t_quantile(confidence, freedom), freedom) == pytest.approx(1 - confidence, rel=1e-8)


@pytest.mark.parametrize(("x", "freedom"), [(3.84146, 1), (5.99146, 2), (7.81473, 3), (18.3070, 10)])
def test_chi_squared_is_that_of_the_tables(x: float, freedom: int) -> None:
    assert chi_squared_tail(x, freedom) == pytest.approx(0.05, rel=1e-4)


def test_sign_flips_are_counted_exactly() -> None:
    draw = Random(3)
    for n in (8, 9, 11):
        logs = [draw.gauss(0.5, 1) for _ in range(n)]
        flips = [
            sum(s * abs(x) for s, x in zip(signs, logs, strict=True)) for signs in itertools.product((1, -1), repeat=n)
        ]
        assert sign_flip_p(logs) == pytest.approx(sum(abs(f) >= abs(sum(logs)) - 1e-12 for f in flips) / 2**n)
    assert sign_flip_p([1.0] * 8) == 2 / 256


def test_a_difference_is_students_of_the_sessions_means() -> None:
    """Blocks that differ by the place of their arms alone; five looks of 1 % are 5 % over all."""
    rule = VerdictRule()
    assert len(rule.looks) * (1 - rule.confidence.differs) == pytest.approx(0.05)
    means = (0.02, 0.04, 0.06, 0.08)
    blocks = [[BlockLogs(one + 0.01, (1, 0)), BlockLogs(one - 0.01, (0, 1))] for one in means]
    found = difference([sums_of(one, 2) for one in blocks], rule.confidence)
    assert found is not None and (found.sessions, found.blocks, found.freedom) == (4, 8, 3)
    error = math.sqrt(0.002 / 3 / 4)
    assert (found.log, found.error) == pytest.approx((0.05, error))
    # The published t of 3 degrees of freedom: of 0.99 and, for both one-sided tests at 1 %, of 0.98.
    ends = [0.05 + sign * t * error for t in (5.841, 4.541) for sign in (-1, 1)]
    logs = [math.log(one) for one in (found.low, found.high, found.same_low, found.same_high)]
    assert logs == pytest.approx(ends, abs=1e-4)


def test_of_simulated_hosts_the_same_has_no_verdict_and_what_differs_has() -> None:
    """A few with fixed seeds; how often is a figure of test_simulated.py."""
    draw, rule = Random(1), VerdictRule(0.02)
    for windows in (worlds.white, worlds.autoregressive, worlds.ramp, worlds.first_slot, worlds.heavy_tails):
        same = [compared(World(windows, 0.01), rule, draw, every_look=True) for _ in range(6)]
        assert not {one.outcome for one in same} & {Outcome.REGRESSED, Outcome.IMPROVED}
        assert sum(one.covered for one in same) >= 5
        more = [compared(World(windows, 0.01, truth=0.3), rule, draw) for _ in range(3)]
        assert {one.outcome for one in more} == {Outcome.REGRESSED}


def test_chance_among_tests_is_bounded_as_benjamini_and_hochberg_have_it() -> None:
    """The 15 p of their example of 1995, of which 4 are discoveries at 5 %."""
    ps = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
          0.7590, 1.0]  # fmt: skip
    assert sum(p <= discovery_bound(ps, 0.05) for p in ps) == 4


def windows(figures: Mapping[str, Mapping[str, float]], session: str) -> Session:
    """`ABBA BAAB`: each window of an arm has these figures."""
    return [[ArmWindow(arm, figures[arm]) for arm in block] for block in session.split()]


def decided(sessions: Sequence[Session], metric: str = "qps", delta: float = 0.02, **more: Any) -> Decision:
    return compare(sessions, "A", "B", VerdictRule(delta), COSTS, **more).decisions[metric]


def known(decision: Decision) -> Difference:
    assert decision.difference is not None
    return decision.difference


def test_the_values_beside_a_ratio_are_of_that_ratio() -> None:
    # Sessions of unlike length and level: all windows of B together are faster, and B is slower in every block.
    long, short = ["AB BA"] * 4, ["AB"]
    made: list[Session] = []
    for number, (blocks, level) in enumerate(((long, 90.0), (short, 100.0), (long, 95.0), (short, 110.0))):
        made.append([
            [ArmWindow(arm, {"qps": level * (1.002 if place else 1) * (0.99 if arm == "B" else 1) * (1 + number / 1e4)})
             for place, arm in enumerate(block)]
            for one in blocks for block in one.split()
        ])  # fmt: skip
    made[1] = [*made[1], [ArmWindow("A", {"qps": 10.0})]]
    decision = decided(made)
    assert known(decision).ratio < 1 and decision.base_value and decision.arm_value
    assert decision.arm_value / decision.base_value == pytest.approx(known(decision).ratio)


def test_the_five_verdicts_in_their_words() -> None:
    assert decided(steady(0.95, 0.005, 8)).verdict == "regressed"
    assert decided(steady(1.05, 0.005, 8)).verdict == "improved"
    assert decided(steady(1.0, 0.005, 8)).verdict == "same within 2 %"
    assert decided(steady(1.0, 0.2, 4)).verdict.startswith("undecided (")
    barred = decided(steady(0.95, 0.005, 8), bars=["another kernel"])
    assert barred.verdict == "not comparable (another kernel)"
    # The numbers are kept, whatever bars the verdict.
    assert barred.difference is not None and barred.bound.startswith("no difference larger than 5")
    # However quiet, one session decides nothing.
    alone = decided(steady(1.3, 0.0001, 1))
    assert alone.verdict == "undecided (one session cannot say what the next would)"
    assert alone.bound == "" and alone.base_value == pytest.approx(1, abs=0.01)
    # A difference within delta is still printed.
    within = known(decided(steady(1.01, 0.002, 8)))
    assert within.low > 1 and 0.01 < within.no_larger_than <= 0.02


def test_more_is_worse_of_latency_and_cpu_and_better_of_qps() -> None:
    up = {
        name: decided(steady(1.05, 0.005, 6, name), name).verdict for name in COMPARED if COMPARED[name].figure == name
    }
    assert up.pop("qps") == "improved"
    assert set(up) == {"rx.lat", "engine.lat", "cpuPer", "usPer", "syPer", "bgPer", "readsPerQuery", "p99"}
    assert set(up.values()) == {"regressed"}


def test_sessions_that_disagree_widen_the_interval_and_blocks_alone_would_not() -> None:
    """Layout that favours one arm for a whole session: +-10 %, with blocks that agree to 0.1 %."""
    found = decided([steady(1 + off, 0.001, 1, seed=i)[0] for i, off in enumerate((0.1, -0.1, 0.1, -0.1, 0.1, -0.1))])
    assert found.outcome is Outcome.UNDECIDED
    assert known(found).variances.session == pytest.approx(0.11, abs=0.01) and known(found).variances.block < 0.002


def test_a_session_variance_is_never_below_zero() -> None:
    """Sessions that agree better than their blocks can: the blocks' spread is the error."""
    logs = [[(0.1, 0), (-0.1, 1)], [(0.1, 1), (-0.1, 0)], [(-0.1, 0), (0.1, 1)], [(-0.1, 1), (0.1, 0)]]
    blocks = [[BlockLogs(log, (0, 1) if first else (1, 0)) for log, first in session] for session in logs]
    found = difference([sums_of(one, 2) for one in blocks], Confidence())
    assert found is not None and found.variances.session == 0
    assert found.error == pytest.approx(math.sqrt(8 * 0.01 / 3 / 8), rel=1e-3)


def placed(order: str, draw: Random) -> list[ArmWindow]:
    """A block whose first window has a fifth less, whichever arm it is of."""
    values = [math.exp(draw.gauss(0, 0.002)) * (0.8 if i == 0 else 1) for i in range(4)]
    return [ArmWindow(arm, {"qps": value}) for arm, value in zip(order, values, strict=True)]


def test_a_slow_first_place_costs_no_precision_and_bars_the_verdict() -> None:
    draw = Random(5)
    sessions = [[placed(order, draw) for order in ("ABBA", "BAAB", "BAAB", "ABBA")] for _ in range(6)]
    found = compare(sessions, "A", "B", VerdictRule(0.02), COSTS)
    assert found.position["qps"].ratio == pytest.approx(math.sqrt(0.8), abs=0.003)
    decision = found.decisions["qps"]
    assert decision.verdict == "not comparable (the first place in a block differs from the others by -11 %)"
    assert known(decision).no_larger_than < 0.005
    # Blocks that were dropped, so that the base is first in 3 of 4, or 2 of 3: the place is no change.
    sessions = [[placed(order, draw) for order in ("ABBA", "ABBA", "BAAB", "ABBA")[: 4 - i % 2]] for i in range(6)]
    uneven = known(decided(sessions))
    assert uneven.blocks == 21 and uneven.low < 1 < uneven.high and uneven.no_larger_than < 0.005


def test_a_twin_that_differs_bars_the_verdict() -> None:
    def session(i: int) -> Session:
        draw = Random(i)
        level = {"A": 1.0, "B": 1.05, "A'": 1.04}
        return [
            [ArmWindow(arm, {"qps": level[arm] * math.exp(draw.gauss(0, 0.003))}) for arm in (*order, *reversed(order))]
            for order in (("A", "B", "A'"), ("B", "A'", "A"), ("A'", "A", "B"))
        ]

    sessions = [session(i) for i in range(6)]
    found = compare(sessions, "A", "B", VerdictRule(0.02), COSTS, twin="A'")
    assert found.decisions["qps"].verdict == "not comparable (A differs from itself (A/A control) by 3.9 %)"
    assert found.twin["qps"].outcome is Outcome.IMPROVED
    assert decided(sessions, delta=0.1, twin="A'").verdict == "same within 10 %"
    assert decided(sessions[:1], twin="A'").outcome is Outcome.UNDECIDED


def test_what_cannot_be_compared_says_why() -> None:
    good = {"qps": 9.0, "rx.lat": 100.0, "readsPerQuery": 1.0, "io.lat": 60.0}
    both = windows({"A": good, "B": {"qps": 10.0}}, "ABBA BAAB")
    verdict = decided([both] * 4, "rx.lat").verdict
    assert verdict == "not comparable (B has a window without rx.lat: it was not measured)"
    overlapping = windows({"A": good, "B": good | {"io.lat": 160.0}}, "ABBA BAAB")
    assert decided([overlapping] * 4, "engine.lat").verdict == (
        "not comparable (B has a window without engine.lat: reads overlap: readsPerQuery x io.lat is above rx.lat)"
    )
    cached = windows({"A": {"qps": 9.0, "readsPerQuery": 0.0}, "B": {"qps": 9.0, "readsPerQuery": 0.0}}, "ABBA BAAB")
    assert list(compare([cached] * 4, "A", "B", VerdictRule(), COSTS).decisions) == ["qps"]


def test_undecided_names_its_price_and_a_noisier_figure_a_higher_one() -> None:
    quiet, loud = (decided(steady(1.0, noise, 4)) for noise in (0.03, 0.12))
    assert quiet.more_blocks and loud.more_blocks and loud.more_blocks > 4 * quiet.more_blocks
    assert quiet.more_minutes == pytest.approx(quiet.more_blocks * (30 + 24) / 60)
    assert f"undecided ({quiet.more_blocks} more blocks, about " in quiet.verdict


def test_chance_among_many_cells_is_no_difference() -> None:
    """A p of 0.04 over all looks is a difference in one cell alone; among 21 cells, 19 of them null, it is chance."""
    difference = known(decided(steady(1.05, 0.01, 4)))

    def cell(p: float, low: float) -> Decision:
        return decide("qps", replace(difference, p=p, low=low, same_low=0.9, same_high=1.1), VerdictRule(), COSTS)

    exact = decide("qps", replace(difference, sign_flip_p=0.2), VerdictRule(), COSTS)
    assert exact.outcome is Outcome.UNDECIDED and "the exact sign-flip test of the sessions does not" in exact.verdict
    lone, null, clear = cell(0.008, 1.01), cell(0.5, 0.9), cell(1e-6, 1.01)
    assert [one.outcome for one in false_discovery([lone])] == [Outcome.IMPROVED]
    found = false_discovery([lone, clear, *[null] * 19])
    assert [one.outcome for one in found[:3]] == [Outcome.UNDECIDED, Outcome.IMPROVED, Outcome.UNDECIDED]
    assert found[0].verdict == "undecided (chance, among the 21 cells of this table)"
    # What is a difference for one arm alone, chance explains among three arms.
    assert among_arms([{"qps": lone}]) == [{"qps": lone}]
    three = among_arms([{"qps": lone}, {"qps": null}, {"qps": null}])
    assert [one["qps"].outcome for one in three] == [Outcome.UNDECIDED] * 3


def test_runs_without_pairs_are_compared_by_welch() -> None:
    """The example of two unequal spreads, checked with scipy.stats.ttest_ind(equal_var=False) on the logarithms."""
    found = unpaired([100.0, 102.0, 98.0, 101.0], [110.0, 120.0, 104.0], Confidence(0.95, 0.9))
    assert found is not None and found.low < 1 < found.ratio < found.high
    assert (found.p, found.freedom) == pytest.approx((0.12599000627917684, 2.16956900874258), rel=1e-6)
    assert unpaired([100.0], [100.0, 101.0], Confidence()) is None


def test_smaller_differences_cost_more_minutes_and_other_draws_have_the_power_of_the_plan() -> None:
    rows = plan_table(Variances(0.0, 0.06, 0.06), COSTS, (0.05, 0.1))
    assert all(row.reached and row.power >= 0.8 and row.expected_minutes <= row.minutes for row in rows)
    assert [row.minutes for row in rows] == [row.sessions * (60 + 24 * row.blocks) / 60 for row in rows]
    assert rows[0].minutes > 1.4 * rows[1].minutes
    world = World(lambda draw, n: [draw.gauss(0, 0.06) for _ in range(n)], truth=math.log1p(0.1), blocks=rows[1].blocks)
    draw = Random(3)
    ended = [compared(world, VerdictRule(0.1), draw, looks=rows[1].looks).outcome for _ in range(100)]
    assert abs(ended.count(Outcome.REGRESSED) / 100 - rows[1].power) < 0.1
    (hopeless,) = plan_table(Variances(0.3, 0.3, 0.3), COSTS, (0.005,))
    assert not hopeless.reached and hopeless.power < 0.8 and hopeless.sessions == 16


def test_the_engine_shows_through_a_disk_that_wanders() -> None:
    found = compare(Device(engine=1.1).sessions(Random(1), 8, 8), "A", "B", VerdictRule(0.02), COSTS).decisions
    assert found["engine.lat"].verdict == found["cpuPer"].verdict == "regressed"
    assert found["qps"].outcome is Outcome.UNDECIDED and found["qps.adj"].base_value == found["qps"].base_value
    qps, adjusted, engine = (known(found[name]) for name in ("qps", "qps.adj", "engine.lat"))
    assert found["qps.adj"].arm_value == pytest.approx((found["qps"].base_value or 0) * adjusted.ratio)
    assert adjusted.ratio == pytest.approx(math.exp(Device(engine=1.1).adjusted_truth()), abs=0.01)
    assert 0.97 < (adjusted.explained or 0) < 1 and engine.low < 1.1 < engine.high
    assert all(math.log(one.high / one.low) < math.log(qps.high / qps.low) / 3 for one in (adjusted, engine))


# ---- the order of arms in blocks -------------------------------------------------------------------------------------
def test_two_arms_stand_in_abba_and_baab_as_often_and_in_no_pattern() -> None:
    orders = session_orders(["A", "B"], 8, 4, seed=7)
    blocks = ["".join(block) for session in orders for block in session.blocks]
    assert Counter(blocks) == {"ABBA": 16, "BAAB": 16}
    assert all(Counter(session.blocks).most_common(1)[0][1] == 2 for session in orders)
    # Neither turn by turn nor session by session.
    assert len({tuple(session.blocks) for session in orders}) > 2
    assert len({session.start for session in orders}) == 2
    assert session_orders(["A", "B"], 8, 4, seed=7) == orders
    assert session_orders(["A", "B"], 8, 4, seed=8) != orders


@pytest.mark.parametrize("arms", [3, 4, 5])
def test_each_arm_stands_once_in_each_place_and_a_straight_drift_cancels(arms: int) -> None:
    names = [f"v{i}" for i in range(arms)]
    (session,) = session_orders(names, 1, arms, seed=3)
    for place in range(arms):
        assert sorted(block[place] for block in session.blocks) == names
    for block in session.blocks:
        assert {sum(i for i, arm in enumerate(block) if arm == name) for name in names} == {2 * arms - 1}


def test_blocks_left_over_are_balanced_over_the_sessions() -> None:
    orders = session_orders(["A", "B"], 6, 3, seed=1)
    assert Counter("".join(block) for session in orders for block in session.blocks) == {"ABBA": 9, "BAAB": 9}


def test_a_twin_joins_one_block_in_ten() -> None:
    orders = session_orders(["A", "B"], 10, 4, seed=1, twin="A'", twin_every=10)
    with_twin = [block for session in orders for block in session.blocks if "A'" in block]
    assert len(with_twin) == 4
    assert all(sorted(block) == ["A", "A", "A'", "A'", "B", "B"] for block in with_twin)
    assert all(sorted(session.start) == ["A", "A'", "B"] for session in orders)
