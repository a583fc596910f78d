from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from ground.results.differences import Decision, Outcome, Variances
from ground.results.metrics import COMPARED
from ioflame.analysis.compare.figures import ArmWindow, Session, block_logs
from ioflame.analysis.compare.nested import Confidence, difference, sign_flip_p, sums_of
from ioflame.analysis.compare.planning import plan_table
from ioflame.analysis.compare.verdict import Costs, VerdictRule, among_arms, compare, decide, false_discovery, unpaired
from ioflame.analysis.quantiles import chi_squared_tail, t_quantile, t_tail
from tests.ioflame.analysis.worlds import Device, steady

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


def windows(figures: Mapping[str, Mapping[str, float]], session: str) -> Session:
    """`ABBA BAAB`: each window of an arm has these figures."""
    return [[ArmWindow(arm, figures[arm]) for arm in block] for block in session.split()]


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
    decision = compare(made, "A", "B", VerdictRule(), COSTS).decisions["qps"]
    assert decision.difference is not None and decision.difference.ratio < 1
    assert decision.base_value and decision.arm_value
    assert decision.arm_value / decision.base_value == pytest.approx(decision.difference.ratio)


def noisy(effect: float, noise: float, sessions: int, metric: str = "qps", seed: int = 1) -> list[Session]:
    return steady(1 + effect, noise, sessions, metric, seed)


def verdict(sessions: list[Session], metric: str = "qps", delta: float = 0.02) -> str:
    return compare(sessions, "A", "B", VerdictRule(delta), COSTS).decisions[metric].verdict


def test_the_five_verdicts_in_their_words() -> None:
    assert verdict(noisy(-0.05, 0.005, 8)) == "regressed"
    assert verdict(noisy(0.05, 0.005, 8)) == "improved"
    assert verdict(noisy(0.0, 0.005, 8)) == "same within 2 %"
    assert verdict(noisy(0.0, 0.2, 4)).startswith("undecided (")
    barred = compare(noisy(-0.05, 0.005, 8), "A", "B", VerdictRule(), COSTS, bars=["another kernel"])
    assert barred.decisions["qps"].verdict == "not comparable (another kernel)"
    # The numbers are kept, whatever bars the verdict.
    assert barred.decisions["qps"].difference is not None
    assert barred.decisions["qps"].bound.startswith("no difference larger than 5")


def test_more_is_worse_of_latency_and_cpu_and_better_of_qps() -> None:
    up = {name: verdict(noisy(0.05, 0.005, 6, name), name) for name in COMPARED if COMPARED[name].figure == name}
    assert up.pop("qps") == "improved"
    assert set(up) == {"rx.lat", "engine.lat", "cpuPer", "usPer", "syPer", "bgPer", "readsPerQuery", "p99"}
    assert set(up.values()) == {"regressed"}


def test_a_difference_within_delta_is_the_same_and_still_printed() -> None:
    decision = compare(noisy(0.01, 0.002, 8), "A", "B", VerdictRule(0.02), COSTS).decisions["qps"]
    assert decision.verdict == "same within 2 %"
    assert decision.difference is not None
    assert decision.difference.low > 1
    assert 0.01 < decision.difference.no_larger_than <= 0.02


def test_one_session_decides_nothing_however_quiet() -> None:
    decision = compare(noisy(0.3, 0.0001, 1), "A", "B", VerdictRule(), COSTS).decisions["qps"]
    assert decision.verdict == "undecided (one session cannot say what the next would)"
    assert decision.bound == ""
    assert decision.base_value == pytest.approx(1, abs=0.01)


def test_sessions_that_disagree_widen_the_interval_and_blocks_alone_would_not() -> None:
    """Layout that favours one arm for a whole session: +-10 %, with blocks that agree to 0.1 %."""
    sessions = [noisy(effect, 0.001, 1, seed=i)[0] for i, effect in enumerate((0.1, -0.1, 0.1, -0.1, 0.1, -0.1))]
    decision = compare(sessions, "A", "B", VerdictRule(), COSTS).decisions["qps"]
    assert decision.outcome is Outcome.UNDECIDED
    assert decision.difference is not None
    assert decision.difference.variances.session == pytest.approx(0.11, abs=0.01)
    assert decision.difference.variances.block < 0.002


def test_a_session_variance_is_never_below_zero() -> None:
    """Sessions that agree better than their blocks can: the blocks' spread is the error."""
    logs = [[(0.1, 0), (-0.1, 1)], [(0.1, 1), (-0.1, 0)], [(-0.1, 0), (0.1, 1)], [(-0.1, 1), (0.1, 0)]]
    draw = Random(2)
    sessions = [
        [
            [
                ArmWindow(a, {"qps": math.exp(d * (a == "B") + draw.gauss(0, 1e-6))})
                for a in ("BAAB" if first else "ABBA")
            ]
            for d, first in session
        ]
        for session in logs
    ]
    found = difference([sums_of(one, 2) for one in block_logs(sessions, COMPARED["qps"], "A", "B")], Confidence())
    assert found is not None
    assert found.variances.session == 0
    assert found.error == pytest.approx(math.sqrt(8 * 0.01 / 3 / 8), rel=1e-3)


def test_a_slow_first_place_costs_no_precision_and_bars_the_verdict() -> None:
    draw = Random(5)
    sessions: list[Session] = []
    for _ in range(6):
        session = []
        for order in ("ABBA", "BAAB", "BAAB", "ABBA"):
            values = [math.exp(draw.gauss(0, 0.002)) * (0.8 if i == 0 else 1) for i in range(4)]
            session.append([ArmWindow(arm, {"qps": value}) for arm, value in zip(order, values, strict=True)])
        sessions.append(session)
    found = compare(sessions, "A", "B", VerdictRule(0.02), COSTS)
    decision = found.decisions["qps"]
    assert found.position["qps"].ratio == pytest.approx(math.sqrt(0.8), abs=0.003)
    assert decision.verdict == "not comparable (the first place in a block differs from the others by -11 %)"
    assert decision.difference is not None
    assert decision.difference.no_larger_than < 0.005


def test_dropped_blocks_leave_no_place_in_the_difference() -> None:
    """The base is first in 3 blocks of 4, or 2 of 3, and the first window has a fifth less: the place is no change."""
    draw = Random(8)

    def block(order: str) -> list[ArmWindow]:
        values = [math.exp(draw.gauss(0, 0.002)) * (0.8 if i == 0 else 1) for i in range(4)]
        return [ArmWindow(arm, {"qps": value}) for arm, value in zip(order, values, strict=True)]

    sessions = [[block(order) for order in ("ABBA", "ABBA", "BAAB", "ABBA")[: 4 - i % 2]] for i in range(6)]
    difference = compare(sessions, "A", "B", VerdictRule(0.02), COSTS).decisions["qps"].difference
    assert difference is not None
    assert difference.blocks == 21
    assert difference.low < 1 < difference.high
    assert difference.no_larger_than < 0.005


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
    assert found.decisions["qps"].verdict == "not comparable (the twin of A differs from it by 3.9 %)"
    assert found.twin["qps"].outcome is Outcome.IMPROVED
    assert (
        compare(sessions, "A", "B", VerdictRule(0.1), COSTS, twin="A'").decisions["qps"].verdict == "same within 10 %"
    )


def test_what_cannot_be_compared_says_why() -> None:
    good = {"qps": 9.0, "rx.lat": 100.0, "readsPerQuery": 1.0, "io.lat": 60.0}
    both = windows({"A": good, "B": {"qps": 10.0}}, "ABBA BAAB")
    decisions = compare([both] * 4, "A", "B", VerdictRule(), COSTS).decisions
    assert decisions["rx.lat"].verdict == "not comparable (B has a window without rx.lat: it was not measured)"
    overlapping = windows({"A": good, "B": good | {"io.lat": 160.0}}, "ABBA BAAB")
    verdict = compare([overlapping] * 4, "A", "B", VerdictRule(), COSTS).decisions["engine.lat"].verdict
    assert verdict == (
        "not comparable (B has a window without engine.lat: reads overlap: readsPerQuery x io.lat is above rx.lat)"
    )
    cached = windows({"A": {"qps": 9.0, "readsPerQuery": 0.0}, "B": {"qps": 9.0, "readsPerQuery": 0.0}}, "ABBA BAAB")
    assert list(compare([cached] * 4, "A", "B", VerdictRule(), COSTS).decisions) == ["qps"]


def test_undecided_names_its_price_and_a_noisier_figure_a_higher_one() -> None:
    quiet, loud = (
        compare(noisy(0.0, noise, 4), "A", "B", VerdictRule(0.02), COSTS).decisions["qps"] for noise in (0.03, 0.12)
    )
    assert quiet.more_blocks is not None
    assert loud.more_blocks is not None
    assert quiet.more_minutes is not None
    assert quiet.more_minutes == pytest.approx(quiet.more_blocks * (30 + 24) / 60)
    assert loud.more_blocks > 4 * quiet.more_blocks
    assert f"undecided ({quiet.more_blocks} more blocks, about " in quiet.verdict


def test_chance_among_many_cells_is_no_difference() -> None:
    """A p of 0.04 over all looks is a difference in one cell alone; among 21 cells, 19 of them null, it is chance."""
    difference = compare(noisy(0.05, 0.01, 4), "A", "B", VerdictRule(), COSTS).decisions["qps"].difference
    assert difference is not None

    def cell(p: float, low: float) -> Decision:
        return decide("qps", replace(difference, p=p, low=low, same_low=0.9, same_high=1.1), VerdictRule(), COSTS)

    lone, null, clear = cell(0.008, 1.01), cell(0.5, 0.9), cell(1e-6, 1.01)
    assert [one.outcome for one in false_discovery([lone])] == [Outcome.IMPROVED]
    found = false_discovery([lone, clear, *[null] * 19])
    assert [one.outcome for one in found[:3]] == [Outcome.UNDECIDED, Outcome.IMPROVED, Outcome.UNDECIDED]
    assert found[0].verdict == "undecided (chance, among the 21 cells of this table)"
    # What is a difference for one arm alone, chance explains among three arms.
    assert among_arms([{"qps": lone}]) == [{"qps": lone}]
    assert [one["qps"].outcome for one in among_arms([{"qps": lone}, {"qps": null}, {"qps": null}])] == [
        Outcome.UNDECIDED
    ] * 3


def test_runs_without_pairs_are_compared_by_welch() -> None:
    """The example of two unequal spreads, checked with scipy.stats.ttest_ind(equal_var=False) on the logarithms."""
    found = unpaired([100.0, 102.0, 98.0, 101.0], [110.0, 120.0, 104.0], Confidence(0.95, 0.9))
    assert found is not None
    assert found.p == pytest.approx(0.12599000627917684, rel=1e-6)
    assert found.freedom == pytest.approx(2.16956900874258, rel=1e-6)
    assert found.low < 1 < found.ratio < found.high
    assert unpaired([100.0], [100.0, 101.0], Confidence()) is None


@pytest.mark.slow
def test_smaller_differences_cost_more_minutes() -> None:
    rows = plan_table(Variances(0.0, 0.06, 0.06), COSTS, (0.02, 0.05, 0.1))
    assert all(row.reached and row.power >= 0.8 and row.expected_minutes <= row.minutes for row in rows)
    minutes = [row.minutes for row in rows]
    assert minutes == sorted(minutes, reverse=True)
    assert minutes[0] > 2.5 * minutes[1]
    # Sessions that differ by 3 %: no number of blocks shows 0.5 %.
    (never,) = plan_table(Variances(0.03, 0.06, 0.06), COSTS, (0.005,))
    assert not never.reached
    assert never.sessions == 16


def test_the_engine_shows_through_a_disk_that_wanders() -> None:
    found = compare(Device(engine=1.1).sessions(Random(1), 8, 8), "A", "B", VerdictRule(0.02), COSTS).decisions
    assert found["engine.lat"].verdict == "regressed"
    assert found["cpuPer"].verdict == "regressed"
    assert found["qps"].outcome is Outcome.UNDECIDED
    assert found["qps.adj"].difference is not None
    assert found["qps.adj"].base_value == found["qps"].base_value
    assert found["qps.adj"].arm_value == pytest.approx(
        (found["qps"].base_value or 0) * found["qps.adj"].difference.ratio
    )
    assert found["qps.adj"].difference.ratio == pytest.approx(math.exp(Device(engine=1.1).adjusted_truth()), abs=0.01)
