"""A release over a fleet: hosts are the units, and another mix of hosts is no other cost."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ground.results.store.database import Store
from ioflame import cli
from ioflame.analysis.fleet import Hosts, change_of
from tests.ioflame.analysis.fleets import Fleet, simulated, simulated_days, told


def hosts(values: Sequence[float]) -> Hosts:
    return Hosts(len(values), sum(values), sum(value * value for value in values))


def test_a_change_is_split_exactly_and_by_hand() -> None:
    small, large = ([1.0, 1.2, 0.8], [1.5]), ([4.0], [4.4, 4.8, 4.6])
    found = change_of([(hosts(base), hosts(arm)) for base, arm in (small, large)])
    assert found is not None
    # 3 of 4 hosts of the base are small, 1 of 4 of the arm: weights 1/2 and 1/2, shifts -1/2 and +1/2.
    assert found.within.estimate == pytest.approx(0.5 * (1.5 - 1.0) + 0.5 * (4.6 - 4.0))
    assert found.mix.estimate == pytest.approx(-0.5 * (1.0 + 1.5) / 2 + 0.5 * (4.0 + 4.6) / 2)
    assert found.arm - found.base == pytest.approx(found.within.estimate + found.mix.estimate)
    # Every side has a variance of 0.04, of its own hosts or of its like: 3, 1, 1 and 3 of them, each weighing 1/4. Six
    # degrees of freedom by Welch and Satterthwaite, whose published t of 0.975 is 2.4469; shifts are halved once more.
    error = math.sqrt(0.25 * 0.04 * (1 / 3 + 1 + 1 + 1 / 3))
    for interval, half in ((found.within, 2.4469 * error), (found.mix, 2.4469 * error / 2)):
        assert interval.high - interval.estimate == pytest.approx(half, abs=1e-4)
    # A stratum that one version does not have is mix, to the last digit.
    alone = change_of([(hosts([1.0, 1.1]), hosts([1.0, 1.2])), (hosts([]), hosts([9.0, 9.0]))])
    assert alone is not None and alone.within.estimate == pytest.approx(0.5 * (1.0 + 0.5) * 0.05)
    assert alone.arm - alone.base == pytest.approx(alone.within.estimate + alone.mix.estimate)
    assert change_of([(hosts([1.0, 1.1]), hosts([]))]) is None
    assert change_of([(hosts([1.0]), hosts([1.1]))]) is None
    constant = change_of([(hosts([2.0, 2.0]), hosts([2.0, 2.0]))])
    assert constant is not None and constant.p == 1 and not constant.within.leaves_zero


def test_one_stratum_is_welchs_t() -> None:
    """Against Welch's own formula."""
    dice = random.Random(4)
    base, arm = [dice.gauss(5, 1) for _ in range(9)], [dice.gauss(5.5, 3) for _ in range(14)]
    found = change_of([(hosts(base), hosts(arm))])
    parts = [statistics.variance(side) / len(side) for side in (base, arm)]
    assert found is not None and found.within.estimate == pytest.approx(statistics.mean(arm) - statistics.mean(base))
    freedom = sum(parts) ** 2 / sum(part**2 / (len(s) - 1) for part, s in zip(parts, (base, arm), strict=True))
    half = (found.within.high - found.within.low) / 2 / math.sqrt(sum(parts))
    # The published t of 0.975 for 15 degrees of freedom.
    assert 15 < freedom < 16 and half == pytest.approx(2.1314, abs=1e-4)


# ---- simulated fleets: how often this is right is a figure of test_simulated.py --------------------------------------
def test_5_percent_of_one_function_on_half_of_800_hosts_is_found_and_nothing_else() -> None:
    """0.05 % of the CPU of 250 of them and half of that of 150, among 200 functions."""
    found = told(simulated(random.Random(19), 0.05))
    assert {name: part.verdict for name, part in found.items()} == {"f0": "regressed"}
    change = found["f0"].change.within
    assert change.low < (250 * 0.05 + 150 * 0.025) / 400 < change.high
    # Of all cores of the new version's hosts.
    assert found["f0"].cores == pytest.approx(change.estimate / 100 * 1600)
    assert told(simulated(random.Random(7), 0.0)) == {}


def test_a_regression_that_ends_has_gone_away_and_one_that_stays_has_not() -> None:
    """10 % of one function on the third to the seventh of ten days, or from the third on."""
    (part,) = told(simulated_days(random.Random(5), [0, 0, *[0.1] * 5, 0, 0, 0])).values()
    assert (part.name, part.verdict) == ("f0", "temporary") and part.away is not None
    assert (part.away.first, part.away.last, part.away.days) == ("2026-11-12", "2026-11-16", 5)
    # Of 400 hosts: 10 % of 1 % of the CPU of 250, of half of that of 150.
    assert part.away.change.low < (250 * 0.1 + 150 * 0.05) / 400 < part.away.change.high
    stays = told(simulated_days(random.Random(6), [0, 0, *[0.1] * 8]))
    assert [(name, one.verdict, one.away) for name, one in stays.items()] == [("f0", "regressed", None)]


# ---- through a store -------------------------------------------------------------------------------------------------
def watched(store: Store, capsys: pytest.CaptureFixture[str]) -> tuple[dict[tuple[str, str], dict[str, Any]], str]:
    """What the command prints as JSON, by kind and name, and as text."""
    argv = ["store", "fleet", str(store.directory), "1.0", "2.0"]
    assert cli.main([*argv, "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert cli.main(argv) == 0
    return {(one["kind"], one["name"]): one for one in parts}, capsys.readouterr().out


def test_a_slower_function_is_told_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice, fleet, by_hand = random.Random(1), Fleet(), {"1.0": [0.0], "2.0": [0.0]}
    for number in range(80):
        version = ("1.0", "2.0")[number % 2]
        lookup = round(dice.gauss(1000, 30) * (1.1 if version == "2.0" else 1))
        samples = {"Cache::Lookup": lookup, "Block::Seek": round(dice.gauss(4000, 60)), "Db::Get": 5000}
        fleet.run(f"h{number}", version, samples, sum(samples.values()) / 500)
        by_hand[version].append(lookup / 500)
    # Of another day, on which nobody ran 2.0.
    fleet.run("h90", "1.0", {"Cache::Lookup": 9000}, day="2026-11-01")
    parts, text = watched(fleet.store(tmp_path / "s"), capsys)
    found = parts["function", "Cache::Lookup"]
    base, arm = (sum(values) / 40 for values in by_hand.values())
    whole = parts["total", "all"]["change"]["arm"]
    assert (found["change"]["base"], found["change"]["arm"]) == (pytest.approx(base), pytest.approx(arm))
    assert (found["verdict"], found["change"]["within"]["estimate"]) == ("regressed", pytest.approx(arm - base))
    assert parts["category", "LRU"]["verdict"] == "regressed" and ("function", "Db::Get") not in parts
    # Of 40 hosts of three cores.
    assert found["cores"] == pytest.approx((arm - base) / whole * 120)
    assert text.startswith(
        "40 hosts of 1.0, 40 of 2.0, 1 days on which both ran, 1 strata that both have; us per query"
    )
    assert "Cache::Lookup  (function)" in text and text.splitlines()[-1].startswith("2.0: ")


def test_another_mix_of_hosts_is_told_as_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new version went to the slow hosts first; on each of the two kinds it costs what the old one did."""
    dice, fleet = random.Random(2), Fleet()
    for number in range(120):
        version, slow = ("1.0", "2.0")[number % 2], number % 8 in (0, 3, 5, 7)
        samples = {"Cache::Lookup": round(dice.gauss(2000, 50)), "Db::Get": 8000}
        fleet.run(f"h{number}", version, samples, dice.gauss(40 if slow else 20, 0.5), cpu="old" if slow else "new")
    parts, text = watched(fleet.store(tmp_path / "s"), capsys)
    of = parts["total", "all"]["change"]
    assert of["within"]["low"] < 0 < of["within"]["high"] and of["within"]["high"] - of["within"]["low"] < 0.6
    # 15 of 60 hosts of the base are slow, 45 of the new version's.
    assert of["mix"]["estimate"] == pytest.approx(0.5 * 20, rel=0.02)
    assert of["arm"] - of["base"] == pytest.approx(of["within"]["estimate"] + of["mix"]["estimate"])
    assert {one["verdict"] for one in parts.values()} == {"mix"}
    assert "nothing found" in text.splitlines()[-1] and "2 strata that both have" in text


def test_days_are_told_apart_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice, fleet = random.Random(9), Fleet()
    for day in range(18, 22):
        for number in range(40):
            version = ("1.0", "2.0")[number % 2]
            slower = 1.3 if version == "2.0" and day < 20 else 1.0
            samples = {"Cache::Lookup": round(dice.gauss(1000, 30) * slower), "Db::Get": 9000}
            fleet.run(f"h{number}", version, samples, sum(samples.values()) / 500, day=f"2026-11-{day}")
    parts, text = watched(fleet.store(tmp_path / "s"), capsys)
    found = parts["function", "Cache::Lookup"]
    assert (found["verdict"], found["away"]["first"], found["away"]["last"], found["away"]["days"]) == (
        "temporary", "2026-11-18", "2026-11-19", 2,
    )  # fmt: skip
    assert found["away"]["change"]["estimate"] == pytest.approx(0.6, abs=0.05)
    assert abs(found["away"]["since"]["estimate"]) < 0.05
    assert "gone after 2 days, 2026-11-18 to 2026-11-19: +0." in text
    assert "2 temporary" in text.splitlines()[-1] and "4 days on which both ran" in text


def test_what_moved_between_functions_of_a_class_is_no_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Block::Seek was split: half of it is Block::Find now."""
    dice, fleet = random.Random(3), Fleet()
    for number in range(60):
        version = ("1.0", "2.0")[number % 2]
        seek = round(dice.gauss(3000, 40))
        of_block = {"Block::Seek": seek} if version == "1.0" else {"Block::Seek": seek // 2, "Block::Find": seek // 2}
        fleet.run(f"h{number}", version, {**of_block, "Cache::Lookup": round(dice.gauss(2000, 30)), "Db::Get": 5000})
    parts, _ = watched(fleet.store(tmp_path / "s"), capsys)
    assert {name: one["verdict"] for (kind, name), one in parts.items() if kind == "function"} == {
        "Block::Seek": "moved", "Block::Find": "moved",
    }  # fmt: skip


def test_profiles_count_by_their_probability_and_shares_stand_where_no_cost_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet()
    for number in range(4):
        version = ("1.0", "2.0")[number % 2]
        # One in ten of the busy hour was profiled, all of the quiet one.
        fleet.run(f"h{number}", version, {"Cache::Lookup": 100, "Db::Get": 100}, None, probability=0.1)
        fleet.run(f"h{number}", version, {"Cache::Lookup": 0, "Db::Get": 400}, None, probability=1.0)
    parts, text = watched(fleet.store(tmp_path / "s"), capsys)
    # 1,000 of 2,400 samples that a full profile would have had.
    lru = parts["category", "LRU"]["change"]
    assert (lru["base"], lru["arm"]) == (pytest.approx(100 * 1000 / 2400),) * 2
    assert "% of CPU" in text and ("total", "all") not in parts


def test_versions_that_no_day_or_stratum_shares_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet()
    for number in range(6):
        fleet.run(f"h{number}", "1.0", {"Cache::Lookup": 100}, day="2026-11-19")
        fleet.run(f"h{number}", "2.0", {"Cache::Lookup": 100}, day="2026-11-20")
    store = fleet.store(tmp_path / "s")
    assert cli.main(["store", "fleet", str(store.directory), "1.0", "2.0"]) == 1
    assert "cannot be compared by their hosts" in capsys.readouterr().err
