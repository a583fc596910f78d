"""The rule against hosts of known faults: how often it is wrong, how often it sees what is there.

Rates are of simulated comparisons with fixed seeds; -s prints them.
"""

from __future__ import annotations

import math
from random import Random

import pytest

from ground.results.differences import Outcome, Variances
from ioflame.analysis.compare.figures import PLANNED
from ioflame.analysis.compare.planning import plan
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare
from tests.ioflame.analysis.worlds import Device, World, autoregressive, compared, first_slot, heavy_tails, ramp, white

pytestmark = pytest.mark.slow

HOSTS = {
    "white noise": World(white),
    "AR(1) 0.8": World(autoregressive),
    "ramp": World(ramp),
    "first slot 20 % slower": World(first_slot),
    "t3 tails": World(heavy_tails),
    "sessions 3 % apart": World(white, session=0.03),
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_same_against_the_same_has_no_verdict(host: str) -> None:
    draw = Random(host)
    found = [compared(HOSTS[host], VerdictRule(0.02), draw, every_look=True) for _ in range(2000)]
    wrong = sum(one.outcome in (Outcome.REGRESSED, Outcome.IMPROVED) for one in found) / len(found)
    covered = sum(one.covered for one in found) / len(found)
    print(f"{host}: false verdicts {100 * wrong:.1f} %, coverage over all looks {100 * covered:.1f} %")
    assert wrong <= 0.06
    assert covered >= 0.93


def test_figures_that_are_only_looked_at_are_quiet_together() -> None:
    """One look with its whole 5 %: of the figures beside QPS and CPU per query at most 6 % have any verdict."""
    draw = Random(4)
    n = wrong = 200
    for _ in range(n):
        decisions = compare(
            Device(0.1).sessions(draw, 6, 4), "A", "B", VerdictRule(0.001, (6,)), Costs(60, 24)
        ).decisions
        beside = [one.outcome for name, one in decisions.items() if name not in PLANNED]
        wrong -= not {Outcome.REGRESSED, Outcome.IMPROVED} & set(beside)
    print(f"a figure beside the planned ones has a false verdict in {100 * wrong / n:.1f} %")
    assert wrong <= 0.06 * n


PLANS = {
    "2 % on a quieter host": (Variances(0.0, 0.04, 0.04), 0.02),
    "5 % with noisy blocks": (Variances(0.0, 0.06, 0.06), 0.05),
    "5 % with sessions apart": (Variances(0.03, 0.06, 0.06), 0.05),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_sees_what_it_was_made_for(case: str) -> None:
    """Where the difference is delta: power, `same` said falsely, and what early looks do to the printed estimate."""
    variances, delta = PLANS[case]
    row = plan(variances, Costs(60, 24), delta)
    # A block of white noise has the deviation of one window.
    host = World(lambda draw, n: [draw.gauss(0, variances.block) for _ in range(n)], variances.session)
    world = World(host.windows, variances.session, math.log1p(delta), row.blocks)
    draw = Random(case)
    found = [compared(world, VerdictRule(delta), draw, looks=row.looks) for _ in range(1000)]
    power = sum(one.outcome is Outcome.REGRESSED for one in found) / len(found)
    same = sum(one.outcome is Outcome.SAME for one in found) / len(found)
    bias = sum(one.difference.log - world.truth for one in found) / len(found) / world.truth
    covered = sum(one.covered for one in found) / len(found)
    print(
        f"{case}: looks {row.looks} x {row.blocks} blocks, {row.minutes:.0f} min: power {100 * power:.1f} %, "
        f"false same {100 * same:.1f} %, bias {100 * bias:.1f} % of delta, coverage {100 * covered:.1f} %"
    )
    assert 0.77 <= power <= 0.87
    assert same <= 0.06
    assert abs(bias) <= 0.15
    assert covered >= 0.93


@pytest.mark.parametrize("device", [Device(), Device(engine=1.1, reads=1.05)], ids=["same", "dearer, and reads more"])
def test_a_disk_that_wanders_is_taken_out_of_qps(device: Device) -> None:
    """By 60 % from window to window: QPS decides nothing, QPS at equal device time and the engine's share do."""
    draw = Random(11)
    widths = {"qps": 0.0, "qps.adj": 0.0, "engine.lat": 0.0}
    truths = {"qps.adj": device.adjusted_truth(), "engine.lat": math.log(device.engine)}
    covered = dict.fromkeys(truths, 0)
    explained = 0.0
    n = 150
    for _ in range(n):
        found = compare(device.sessions(draw, 4, 4), "A", "B", VerdictRule(0.02), Costs(60, 24)).decisions
        for name in widths:
            difference = found[name].difference
            assert difference is not None
            widths[name] += math.log(difference.high / difference.low) / n
            if name in truths:
                covered[name] += math.log(difference.low) <= truths[name] <= math.log(difference.high)
            explained += (difference.explained or 0) / n
    rates = {name: count / n for name, count in covered.items()}
    print(f"widths {widths}, coverage {rates}, explained by the device {explained:.3f}")
    assert widths["qps.adj"] < widths["qps"] / 3
    assert widths["engine.lat"] < widths["qps"] / 3
    assert min(covered.values()) >= 0.93 * n
    assert 0.97 < explained < 1
