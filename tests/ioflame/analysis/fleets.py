"""Fleets that never were: rows as of fleet.sql with a known truth, and stores of many hosts' runs."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ground.results.fleet import FleetPart
from ground.results.store.database import RunTables, Store
from ground.results.store.ids import FrameTable
from ioflame.analysis.fleet import watch_of

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
