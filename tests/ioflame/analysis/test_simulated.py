"""How often the rules are wrong and see what is there, over simulated worlds of known truth: figures, and no gate.

Each test draws anew; its seed is its first row, and SEED=N repeats it. The formulas themselves are held against
published values and hand arithmetic in the other files of this directory.
"""

from __future__ import annotations

import math
import os
import statistics
from random import Random

import pytest

from ground.results.differences import Outcome, Variances
from ioflame.analysis.bisect import Found
from ioflame.analysis.bootstrap import Resamples
from ioflame.analysis.change_points import Run, fit_history
from ioflame.analysis.compare.figures import PLANNED
from ioflame.analysis.compare.planning import plan
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare
from ioflame.analysis.tail_groups import Cuts, Scored, ScoredGroups
from tests.figures import Report
from tests.ioflame.analysis.fleets import simulated, simulated_days, told
from tests.ioflame.analysis.test_bisect import COMMITS, EFFECT, searched
from tests.ioflame.analysis.test_budget import budget
from tests.ioflame.analysis.test_change_points import ERROR, REPEATS, VERSIONS, found, step
from tests.ioflame.analysis.test_stats import ratio, slices
from tests.ioflame.analysis.worlds import Device, World, autoregressive, compared, first_slot, heavy_tails, ramp, white

pytestmark = pytest.mark.by_hand


@pytest.fixture
def draw(figure: Report) -> Random:
    seed = int(os.environ.get("SEED") or Random().randrange(10_000))
    figure("seed", seed)
    return Random(seed)


def rate(figure: Report, name: str, hits: float, n: int, expected: str) -> None:
    """In percent, with the interval of Wilson (1927)."""
    share, z2 = hits / n, 1.96**2 / n
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * share * (1 - share) + z2 * z2 / 4) / (1 + z2)
    figure(f"{name}, %", 100 * share, 100 * (middle - half), 100 * (middle + half), expected=expected)


def mean(figure: Report, name: str, values: list[float], expected: str) -> None:
    middle, half = statistics.fmean(values), 1.96 * statistics.stdev(values) / math.sqrt(len(values))
    figure(name, middle, middle - half, middle + half, expected=expected)


# ---- compare ---------------------------------------------------------------------------------------------------------
HOSTS = {
    "white noise": World(white),
    "AR(1) 0.8": World(autoregressive),
    "ramp": World(ramp),
    "first slot 20 % slower": World(first_slot),
    "t3 tails": World(heavy_tails),
    "sessions 3 % apart": World(white, session=0.03),
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_same_against_the_same_has_no_verdict(host: str, draw: Random, figure: Report) -> None:
    ended = [compared(HOSTS[host], VerdictRule(0.02), draw, every_look=True) for _ in range(2000)]
    wrong = sum(one.outcome in (Outcome.REGRESSED, Outcome.IMPROVED) for one in ended)
    rate(figure, "false verdicts", wrong, len(ended), "at most 5")
    rate(figure, "all looks hold the truth", sum(one.covered for one in ended), len(ended), "at least 95")


def test_figures_that_are_only_looked_at_are_quiet_together(draw: Random, figure: Report) -> None:
    """One look with its whole 5 %: of the figures beside QPS and CPU per query at most 5 % have any verdict."""
    wrong, n = 0, 200
    for _ in range(n):
        decisions = compare(
            Device(0.1).sessions(draw, 6, 4), "A", "B", VerdictRule(0.001, (6,)), Costs(60, 24)
        ).decisions
        beside = {one.outcome for name, one in decisions.items() if name not in PLANNED}
        wrong += bool({Outcome.REGRESSED, Outcome.IMPROVED} & beside)
    rate(figure, "a false verdict beside the planned figures", wrong, n, "at most 5")


PLANS = {
    "2 % on a quieter host": (Variances(0.0, 0.04, 0.04), 0.02),
    "5 % with noisy blocks": (Variances(0.0, 0.06, 0.06), 0.05),
    "5 % with sessions apart": (Variances(0.03, 0.06, 0.06), 0.05),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_sees_what_it_was_made_for(case: str, draw: Random, figure: Report) -> None:
    """Where the difference is delta: power, `same` said falsely, and what early looks do to the printed estimate."""
    variances, delta = PLANS[case]
    row = plan(variances, Costs(60, 24), delta)
    # A block of white noise has the deviation of one window.
    host = World(lambda draw, n: [draw.gauss(0, variances.block) for _ in range(n)], variances.session)
    world = World(host.windows, variances.session, math.log1p(delta), row.blocks)
    ended = [compared(world, VerdictRule(delta), draw, looks=row.looks) for _ in range(1000)]
    n = len(ended)
    rate(figure, "power", sum(one.outcome is Outcome.REGRESSED for one in ended), n, "77 to 87")
    rate(figure, "false `same`", sum(one.outcome is Outcome.SAME for one in ended), n, "at most 5")
    rate(figure, "all looks hold the truth", sum(one.covered for one in ended), n, "at least 95")
    bias = [100 * (one.difference.log / world.truth - 1) for one in ended]
    mean(figure, "bias, % of delta", bias, "within 15")


@pytest.mark.parametrize("device", [Device(), Device(engine=1.1, reads=1.05)], ids=["same", "dearer, and reads more"])
def test_a_disk_that_wanders_is_taken_out_of_qps(device: Device, draw: Random, figure: Report) -> None:
    """By 60 % from window to window: QPS decides nothing, QPS at equal device time and the engine's share do."""
    widths: dict[str, list[float]] = {"qps": [], "qps.adj": [], "engine.lat": []}
    truths = {"qps.adj": device.adjusted_truth(), "engine.lat": math.log(device.engine)}
    covered = dict.fromkeys(truths, 0)
    n = 150
    for _ in range(n):
        decisions = compare(device.sessions(draw, 4, 4), "A", "B", VerdictRule(0.02), Costs(60, 24)).decisions
        for name, width in widths.items():
            difference = decisions[name].difference
            assert difference is not None
            width.append(math.log(difference.high / difference.low))
            if name in truths:
                covered[name] += math.log(difference.low) <= truths[name] <= math.log(difference.high)
    for name, hits in covered.items():
        rate(figure, f"{name} holds the truth", hits, n, "99, of one look")
        narrower = [own / all_ for own, all_ in zip(widths[name], widths["qps"], strict=True)]
        mean(figure, f"width of {name}, of that of qps", narrower, "below 0.33")


def test_all_rows_of_a_budget_hold_at_once(draw: Random, figure: Report) -> None:
    """The intervals of all rows hold together, and no row is seen that did not change; sessions are 3 % apart."""
    truth = {"latency": 3.0, "on CPU": 3.0, "libc+k": 3.0}
    held = false = 0
    n = 100
    for _ in range(n):
        rows = budget(draw.getrandbits(32), 5, 0.03, spin=3.0, resamples=120).rows
        held += all(row.low <= truth.get(row.name, 0) <= row.high for row in rows)
        false += any(row.seen for row in rows if row.name not in truth)
    rate(figure, "all rows hold", held, n, "at least 95")
    rate(figure, "a false row", false, n, "at most 5")


# ---- history and bisect ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rounds", [0.0, 0.2])
def test_where_no_version_changed_none_is_reported(rounds: float, draw: Random, figure: Report) -> None:
    reports = [bool(found([10.0] * VERSIONS, draw, rounds=rounds).features) for _ in range(400)]
    rate(figure, "series with a report", sum(reports), 400, "at most 5")


def test_where_no_version_changed_heavy_tails_and_single_runs_report_as_seldom(draw: Random, figure: Report) -> None:
    def run() -> Run:
        return Run(0.02 * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2) / 3))

    n = 300
    heavy = [fit_history([[run() for _ in range(REPEATS)] for _ in range(VERSIONS)]) for _ in range(n)]
    single = [found([10.0] * 20, draw, repeats=1) for _ in range(n)]
    known = [fit_history([[Run(draw.gauss(9, 0.001))] for _ in range(12)], deviation=0.001) for _ in range(n)]
    for name, fits in (("t3 tails", heavy), ("a run a version", single), ("its deviation known", known)):
        rate(figure, f"series with a report, {name}", sum(bool(one.features) for one in fits), n, "at most 5")


@pytest.mark.parametrize("size", [4, 2])
def test_a_step_is_found_where_it_is(size: float, draw: Random, figure: Report) -> None:
    away = []
    for _ in range(300):
        at = draw.randrange(5, 26)
        places = [one.at for one in found(step(size, at), draw).features if not one.dip]
        away.append(min((abs(place - at) for place in places), default=VERSIONS))
    for within, expected in enumerate(("90 for 4", "99 for 4", "99 for 4, 80 for 2")):
        name = f"step of {size} standard errors, within {within} versions"
        rate(figure, name, sum(one <= within for one in away), len(away), f"at least {expected}")


def test_dips_and_what_is_undone_are_told(draw: Random, figure: Report) -> None:
    hits = covered = gone = 0
    n = 200
    for _ in range(n):
        at = draw.randrange(1, VERSIONS - 1)
        levels = [10 - 5 * ERROR * (place == at) for place in range(VERSIONS)]
        hits += (at, True, at + 1) in [(one.at, one.dip, one.went_away) for one in found(levels, draw).features]
        levels = [10 + 10 * ERROR * (10 <= place < 20) for place in range(VERSIONS)]
        up, *rest = found(levels, draw).features
        covered += up.low <= math.exp(10 * ERROR) <= up.high
        gone += [one.at for one in rest] == [20] and up.went_away == 20
    rate(figure, "a dip of 5 standard errors", hits, n, "at least 90")
    rate(figure, "a step's interval holds its size", covered, n, "about 95")
    rate(figure, "a step that is undone has gone away", gone, n, "at least 85")


def test_the_commit_is_found_among_a_thousand(draw: Random, figure: Report) -> None:
    right, blocks = 0, []
    for _ in range(200):
        culprit = draw.randrange(1, COMMITS + 1)
        answer, took = searched(culprit, draw)
        right += answer is not None and answer.first == culprit == answer.last
        blocks.append(took)
    rate(figure, "right", right, 200, "at least 95")
    low, _, _, middle, *_, high = statistics.quantiles(blocks, n=8)
    figure("blocks, and 1 to 7 of 8", middle, low, high, expected="at most 150")

    def parts(of: Found | None) -> Found:
        assert of is not None
        return of

    answers = [parts(searched(20, draw, last=40)[0]) for _ in range(100)]
    held = sum(abs(one.change - EFFECT) <= 1.96 * one.error for one in answers)
    rate(figure, "the effect is within its interval", held, len(answers), "about 95")
    skipped = [parts(searched(32, draw, skipped={30, 31, 32, 33}, last=64)[0]) for _ in range(100)]
    rate(
        figure, "named with what cannot be built", sum((o.first, o.last) == (30, 34) for o in skipped), 100, "above 95"
    )


# ---- intervals by resamples ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("repeats", [1, 4])
def test_intervals_of_slices_hold_the_truth(repeats: int, draw: Random, figure: Report) -> None:
    """Noisy slices around 0.3. With repeats, each has its own level too, which slices of one do not show."""
    held, n = 0, 300
    for trial in range(n):
        groups = []
        for _ in range(repeats):
            level = draw.gauss(0.3, 0.02) if repeats > 1 else 0.3
            wholes = [draw.uniform(80, 120) for _ in range(20)]
            groups.append(slices([whole * draw.gauss(level, 0.05) for whole in wholes], wholes))
        interval = Resamples(groups, resamples=200, seed=trial).median(ratio).interval()
        assert interval is not None
        held += interval.low <= 0.3 <= interval.high
    rate(figure, "95 % intervals that hold the truth", held, n, "80 to 97")


def test_differences_of_groups_hold_nothing_where_nothing_differs(draw: Random, figure: Report) -> None:
    """Random halves: the scores have nothing to do with the values."""
    held, n = 0, 120
    for world in range(n):
        samples = []
        for block in range(24):
            # What a block has in common, both groups have.
            common = draw.gauss(0, 20)
            samples += [
                Scored(draw.random(), draw.choice((1.0, 3.0)), block, (common + draw.lognormvariate(4, 1),))
                for _ in range(4)
            ]
        differs = ScoredGroups(samples, 24, Cuts(0.5, middle=(0.0, 0.499))).differences(120, seed=world)
        held += differs is not None and not differs[0].leaves_zero
    rate(figure, "random halves hold zero", held, n, "90 to 99")


# ---- a fleet of 800 hosts --------------------------------------------------------------------------------------------
def test_a_slower_function_of_a_fleet_is_found_and_chance_is_not(draw: Random, figure: Report) -> None:
    """5 % of one function among 200: 0.05 % of the CPU of 250 hosts and half of that of 150."""
    n = 400
    watches = [told(simulated(draw, 0.05)) for _ in range(n)]
    seen = [one["f0"] for one in watches if "f0" in one]
    rate(figure, "found", sum(one.verdict == "regressed" for one in seen), n, "at least 90")
    chance = [(len(one) - ("f0" in one)) / max(1, len(one)) for one in watches]
    mean(figure, "chance, as a share of what is found", chance, "at most 0.05")
    truth = (250 * 0.05 + 150 * 0.025) / 400
    mean(figure, "its size, of the true one", [one.change.within.estimate / truth for one in seen], "1")
    alarms = sum(bool(told(simulated(draw, 0.0))) for _ in range(n))
    rate(figure, "fleets with an alarm where nothing changed", alarms, n, "at most 5")


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [([0, 0, *[0.1] * 5, 0, 0, 0], "temporary"), ([0, 0, *[0.1] * 8], "regressed"), ([0.0] * 10, "")],
    ids=["ends", "stays", "never was"],
)
def test_days_of_a_regression_are_told(slower: list[float], verdict: str, draw: Random, figure: Report) -> None:
    n = 25
    watches = [told(simulated_days(draw, slower)) for _ in range(n)]
    if verdict:
        rate(figure, verdict, sum(one["f0"].verdict == verdict for one in watches if "f0" in one), n, "at least 90")
    away = [part.away for one in watches if (part := one.get("f0")) and part.away]
    days = sum((one.first, one.last) == ("2026-11-12", "2026-11-16") for one in away)
    rate(figure, "said to have ended, with its days", days, n, "at least 90, or 0 where it did not")
    others = sum(any(name != "f0" for name in one) for one in watches)
    rate(figure, "fleets with another function", others, n, "at most 10")
