"""Histories made in code: forty versions of tests on hosts, of which one may become slower; and figures of a store."""

from __future__ import annotations

import math
import random

from ground.results.history import Category, History, Noise
from ground.results.store.database import RunTables, Store
from ioflame.analysis.history import Measured, history_of

VERSIONS = [f"{major}.{minor}.0" for major in (6, 7, 8, 9) for minor in range(10)]


def made(tests: int, hosts: int, repeats: int, slower_from: int | None) -> History:
    """QPS falls by 10 % and LRU costs 2 us more from one version on, in the first test on the first host."""
    dice = random.Random(7)
    measured, categories = [], []
    for test in range(tests):
        for host in range(hosts):
            for place, version in enumerate(VERSIONS):
                slow = slower_from is not None and place >= slower_from and (test, host) == (0, 0)
                where = (f"test{test}", f"host{host}", version)
                for turn in range(repeats):
                    for metric, value in (("qps", 1e5 * (0.9 if slow else 1)), ("cpuPer", 20 + 2 * slow)):
                        seen = value * math.exp(dice.gauss(0, 0.01))
                        measured.append(Measured(*where, metric, seen, "", f"2026-01-01 {place:02}:{turn:02}:00"))
                for number in range(14):
                    us = 1.5 + 2 * (slow and number == 0)
                    categories.append(Category(*where, f"c{number}" if number else "LRU", us, 0.05, repeats))
    return history_of(measured, categories, [Noise("host0", "2026-01-01", 4, 1.5, 0.7, 0.1, 2.0)])


def add_figure(store: Store, name: str, label: str, metric: str, value: float, **told: str) -> None:
    tables = RunTables(name, "2026-01-01")
    tables.add("runs", campaign="", twin=False, label=label, source="ioflame", **told)
    tables.add("figures", metric=metric, value=value)
    store.add(tables)
