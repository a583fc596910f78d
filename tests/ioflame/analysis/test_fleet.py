"""A release over a fleet: hosts are the units, and another mix of hosts is no other cost."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ground.results.fleet import FleetChange, FleetPart
from ground.results.store.database import RunTables, Store
from ground.results.store.ids import FrameTable
from ioflame import cli
from ioflame.analysis.fleet import Hosts, change_of, watch_of

pytestmark = pytest.mark.slow


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
    # A stratum that one version does not have is mix, to the last digit.
    alone = change_of([(hosts([1.0, 1.1]), hosts([1.0, 1.2])), (hosts([]), hosts([9.0, 9.0]))])
    assert alone is not None and alone.within.estimate == pytest.approx(0.5 * (1.0 + 0.5) * 0.05)
    assert alone.arm - alone.base == pytest.approx(alone.within.estimate + alone.mix.estimate)
    assert change_of([(hosts([1.0, 1.1]), hosts([]))]) is None
    assert change_of([(hosts([1.0]), hosts([1.1]))]) is None


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


# ---- simulated fleets ------------------------------------------------------------------------------------------------
FUNCTIONS = 200
# Percent of a host's CPU; the first is the one that gets slower.
SHARES = [1.0] + [99.0 * (i + 1) / (FUNCTIONS * (FUNCTIONS - 1) / 2) for i in range(FUNCTIONS - 1)]
SAMPLES_OF_HOST = 20_000
# From host to host, of a function's share.
SCATTER = 0.1


def simulated(dice: random.Random, slower: float, samples: float = SAMPLES_OF_HOST) -> list[dict[str, Any]]:
    """Rows as of fleet.sql: 400 of 800 hosts run the new version, in two strata of which one costs half as much."""
    rows: list[dict[str, Any]] = []
    for name, share in enumerate(SHARES):
        for stratum, cheaper, count in (("small", 1.0, 250), ("large", 0.5, 150)):
            for is_arm in (False, True):
                mean = share * cheaper * (1 + slower * (is_arm and name == 0))
                spread = math.hypot(SCATTER * mean, math.sqrt(mean * (100 - mean) / samples))
                # The sums of as many normal figures: theirs is normal, their scatter that of chi-squared.
                total = dice.gauss(count * mean, math.sqrt(count) * spread)
                scatter = spread**2 * dice.gammavariate((count - 1) / 2, 2)
                rows.append({
                    "kind": "function", "name": f"f{name}", "stratum": stratum, "is_arm": is_arm, "hosts": count,
                    "total": total, "squares": scatter + total**2 / count, "samples": 1000, "cores": 800.0,
                    "per_query": False, "day": None, "days": 1,
                })  # fmt: skip
    whole = [(one["hosts"], one) for one in rows[:4]]
    return rows + [{**one, "kind": "total", "name": "all", "total": 100.0 * n, "squares": 1e4 * n} for n, one in whole]


def told(rows: Sequence[Mapping[str, Any]]) -> dict[str, FleetPart]:
    found = watch_of(rows)
    assert found is not None and (found.hosts, found.strata) == ((400, 400), 2)
    return {part.name: part for part in found.parts}


def test_5_percent_of_one_function_on_half_of_800_hosts_is_found() -> None:
    """0.05 % of the CPU of 250 of them and half of that of 150, among 200 functions; what else is found is chance."""
    dice, repeats = random.Random(19), 400
    found = [told(simulated(dice, 0.05)) for _ in range(repeats)]
    assert sum(one["f0"].verdict == "regressed" for one in found if "f0" in one) >= 0.9 * repeats
    # What is found by chance, as a share of what is found.
    assert statistics.mean((len(one) - ("f0" in one)) / max(1, len(one)) for one in found) <= 0.05
    sizes = [one["f0"].change.within.estimate for one in found if "f0" in one]
    # 250 hosts with 0.05 % more of their CPU and 150 with half of that.
    assert statistics.mean(sizes) == pytest.approx((250 * 0.05 + 150 * 0.025) / 400, rel=0.05)
    # Of all cores of the new version's hosts.
    assert found[0]["f0"].cores == pytest.approx(found[0]["f0"].change.within.estimate / 100 * 1600)


def test_where_nothing_changed_nothing_is_found() -> None:
    dice, repeats = random.Random(7), 400
    alarms = sum(bool(told(simulated(dice, 0.0))) for _ in range(repeats))
    assert alarms <= 0.05 * repeats


DAYS = [f"2026-11-{day:02}" for day in range(10, 20)]


def simulated_days(dice: random.Random, slower: Sequence[float]) -> list[dict[str, Any]]:
    """Those fleets day by day, and all days together. slower: of the new version on each day.

    A host is as far from the others on every day; what is drawn anew each day are its samples.
    """
    rows: list[dict[str, Any]] = []
    for one in simulated(dice, 0.0, math.inf):
        count, mean = one["hosts"], one["total"] / one["hosts"]
        drawn = count * mean * (100 - mean) / SAMPLES_OF_HOST if one["kind"] == "function" else 0.0
        ours = one["is_arm"] and one["name"] == "f0"
        totals = [one["total"] * (1 + more * ours) + dice.gauss(0, math.sqrt(drawn)) for more in slower]
        kept = one["squares"] - one["total"] ** 2 / count
        for day, total, of in [*((*pair, drawn) for pair in zip(DAYS, totals, strict=True)),
                               (None, statistics.mean(totals), drawn / len(DAYS))]:  # fmt: skip
            rows.append({**one, "day": day, "total": total, "squares": kept + of + total**2 / count, "days": len(DAYS)})
    return rows


def test_a_regression_that_ends_is_said_to_have_gone_away() -> None:
    """10 % of one function on the third to the seventh of ten days."""
    dice, repeats = random.Random(5), 25
    found = [told(simulated_days(dice, [0, 0, 0.1, 0.1, 0.1, 0.1, 0.1, 0, 0, 0])) for _ in range(repeats)]
    away = [part.away for one in found if (part := one.get("f0")) and part.away and part.verdict == "went away"]
    exact = [one for one in away if (one.first, one.last, one.days) == ("2026-11-12", "2026-11-16", 5)]
    assert len(exact) >= 0.9 * repeats
    # Of 400 hosts: 10 % of 1 % of the CPU of 250, of half of that of 150.
    assert statistics.mean(one.change.estimate for one in exact) == pytest.approx(
        (250 * 0.1 + 150 * 0.05) / 400, rel=0.1
    )
    assert (
        sum(part.verdict == "went away" for one in found for name, part in one.items() if name != "f0")
        <= 0.05 * repeats
    )


def test_what_stays_or_never_was_does_not_go_away() -> None:
    dice, repeats = random.Random(6), 25
    stays = [told(simulated_days(dice, [0, 0, *[0.1] * 8])) for _ in range(repeats)]
    assert sum(one["f0"].verdict == "regressed" for one in stays if "f0" in one) >= 0.9 * repeats
    assert sum(part.away is not None for one in stays for part in one.values()) <= 0.05 * repeats
    never = [told(simulated_days(dice, [0.0] * 10)) for _ in range(repeats)]
    assert sum(map(bool, never)) <= 0.1 * repeats


# ---- through a store -------------------------------------------------------------------------------------------------
class Fleet:
    """Many runs, as one file a table. A run: samples by function, one stack each."""

    def __init__(self) -> None:
        self.tables = RunTables("fleet", "2026-11-20")
        self.frames = FrameTable()
        self.runs = 0

    def run(self, host: str, version: str, samples: Mapping[str, int], cost: float | None = 20.0, *, cpu: str = "A",
            day: str = "2026-11-20", probability: float = 1.0, service: str = "serving") -> None:  # fmt: skip
        name = f"fleet.{self.runs:05}"
        self.runs += 1
        rows = self.tables.rows

        def add(table: str, **row: object) -> None:
            rows.setdefault(table, []).append({"run": name, **row})

        add("runs", created=f"{day}T00:00:00", twin=False, test=service, label=version, host=host, campaign="",
            probability=probability)  # fmt: skip
        add("hosts", host=host, facts=json.dumps({"cpu": cpu, "kernel": "6.1"}))
        add("windows", window=0, kind="plain", start_ns=0, end_ns=10**9, cpu_ns=3 * 10**9)
        if cost is not None:
            add("figures", metric="cpuPer", value=cost)
        for function, count in samples.items():
            high, low = self.frames.stack([self.frames.frame("main"), self.frames.frame(function)])
            add("samples", event="cpu-clock", unit="ns", stack_hi=high, stack_lo=low, weight=count * 10**6,
                samples=count)  # fmt: skip
            add("samples", event="off-cpu", unit="ns", stack_hi=high, stack_lo=low, weight=10**12, samples=1)
        category = {"LRU": samples.get("Cache::Lookup", 0), "other": sum(samples.values()) - samples["Cache::Lookup"]}
        for one, count in category.items():
            add("categories", event="cpu-clock", view="owner", category=one, weight=count * 10**6, samples=count)

    def store(self, place: Path) -> Store:
        self.tables.rows["frames"] = list(self.frames.frames.values())
        self.tables.rows["stacks"] = list(self.frames.stacks.values())
        made = Store(place, create=True)
        made.add(self.tables)
        return made


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
        "went away", "2026-11-18", "2026-11-19", 2,
    )  # fmt: skip
    assert found["away"]["change"]["estimate"] == pytest.approx(0.6, abs=0.05)
    assert abs(found["away"]["since"]["estimate"]) < 0.05
    assert "gone after 2 days, 2026-11-18 to 2026-11-19: +0." in text
    assert "2 went away" in text.splitlines()[-1] and "4 days on which both ran" in text


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


def test_a_change_of_a_constant_has_no_interval() -> None:
    found = change_of([(hosts([2.0, 2.0]), hosts([2.0, 2.0]))])
    assert isinstance(found, FleetChange) and found.p == 1 and not found.within.leaves_zero
