"""Stores for the tests: what they are made of, and what is in them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ground.results.comparison import ComparisonRun
from ground.results.profile import read_profile
from ground.results.run import Run
from ground.results.store.database import RunTables, Store
from ground.results.store.ids import FrameTable
from ground.system.atomic_files import write_json
from ioflame.stages.comparison import verdicts_of
from tests.records import profile_facts
from tests.viz import compared
from tests.viz.compared import RATES, fold
from tests.viz.runs import record, series


def made_run(out: Path, pid: int, version: str = "7.8.3", slower: int = 0, **changes: Any) -> Run:
    """A run with a profile of stackfold's. slower: samples a second more in one function; changes: of its record"""
    tools = {"engine": version, "engine_artifact": f"a{version}"}
    run = Run.create(out, record(**{"pid": pid, "tools": tools, **changes}))
    seconds = series()
    for one in seconds:
        one.counters.storage_read_ms = round(one.counters.storage_read_ms)
    run.save_windows(run.record.windows, seconds)
    cache = "main;eng::Db::Get;eng::Cache::Lookup"
    fold({**RATES, cache: RATES[cache] + slower}, random.Random(pid), run.path("profile.json"))
    found = read_profile(run.path("profile.json")).statistics
    run.record.profile = profile_facts(
        frequency=99, samples=found.samples, weight=found.weight, report_weight=found.weight
    )
    run.save()
    return run


def small_run(store: Store, weight: int, label: str = "7.8.3") -> str:
    """The name of a run in the store, of one sample of that weight."""
    tables, frames = RunTables(f"run{weight}", "2026-11-20"), FrameTable()
    high, low = frames.stack([frames.frame("main")])
    tables.add("runs", created="2026-11-20T00:00:00", test="small", label=label, host="h", probability=1.0)
    tables.add("samples", event="cpu-clock", unit="ns", stack_hi=high, stack_lo=low, weight=weight, samples=1)
    tables.rows["frames"], tables.rows["stacks"] = list(frames.frames.values()), list(frames.stacks.values())
    assert store.add(tables)
    return tables.run


def stored(directory: Path, *small: int) -> Store:
    """A store of small runs."""
    store = Store(directory, create=True)
    for weight in small:
        small_run(store, weight)
    return store


def weights(store: Store) -> dict[str, tuple[int, int]]:
    sql = "SELECT run, sum(weight)::BIGINT, sum(samples)::BIGINT FROM samples GROUP BY run"
    return {run: (weight, samples) for run, weight, samples in store.query(sql).rows}


def words(row: Sequence[object]) -> str:
    """Of a row, to sort by: floats are sums, which are made in an order that follows the files."""
    return repr([value for value in row if not isinstance(value, float)])


def made_comparison(directory: Path) -> Path:
    """Six sessions of A, B and a twin of A, of which B takes 5 % longer; in the last block something was disturbed."""
    made = compared.record(1.05, host={"host_id": "h1", "boot_id": "b1"})
    made.sessions[-1].blocks[-1].dropped = "repeated: steal"
    start = itertools.count(10**9, 10**9)
    for session in made.sessions:
        for one in (one for block in session.blocks for one in block.windows):
            one.window.counters.storage_read_ms = round(one.window.counters.storage_read_ms)
            one.window.start_ns = next(start)
            one.window.end_ns = one.window.start_ns + 5 * 10**9
        for process in session.processes:
            own = [one.window for block in session.blocks for one in block.windows if one.arm == process.arm]
            process.pid = session.number
            (directory / process.directory).mkdir()
            whole = record(windows=own, pid=process.pid, host=made.host, metrics={}, profile=None)
            Run(directory / process.directory, whole).save()
    write_json(directory / "comparison.json", made)
    verdicts_of(ComparisonRun.open(directory))
    return directory
