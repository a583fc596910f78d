"""What a store holds of the versions of an engine: for the page of its history, as CSV for Apache Otava, and of two by
their hosts."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.accounts import ACCOUNTS, ALL, Account
from ground.results.fleet import Watch
from ground.results.history import Category, History, Noise, Series
from ground.results.metrics import METRICS
from ground.results.store.database import Store
from ground.results.store.parquet_files import stored_query
from ground.system.atomic_files import write_json, write_whole
from ioflame.analysis.fleet import watch_of
from ioflame.analysis.history import Measured, history_of

_CATEGORIES = """SELECT test, host, label, category, us, sd, runs FROM us_per_query WHERE "view" = 'owner'"""
_NOISE = """SELECT host, strftime(day, '%Y-%m-%d'), runs, qps_sd, cpu_sd, twin_mean, twin_sd FROM noise
            WHERE qps_sd IS NOT NULL"""
# Each join of fleet.sql has its smaller side last; by its own estimates DuckDB would keep all samples in memory.
_AS_WRITTEN = "SET disabled_optimizers = 'join_order,build_side_probe_side'"
_DAYS = "SELECT label, created::DATE AS day, count(DISTINCT host) AS hosts FROM runs GROUP BY ALL ORDER BY ALL"


def read_history(store: Store, also: Sequence[str] = (), metrics: Sequence[str] = ()) -> History:
    """also: as history_of has it; metrics: the figures that are looked at; none: all, of accounts the row of all"""
    measured = [
        Measured(
            row["test"],
            row["host"],
            row["label"],
            row["metric"],
            row["value"],
            row["round"],
            str(row["created"]),
            row["width"],
        )
        for row in store.query(stored_query("history.sql"), [list(ACCOUNTS)]).as_dicts()
        if (row["metric"] in metrics if metrics else _is_shown(row["metric"]))
    ]
    categories = [Category(*row) for row in store.query(_CATEGORIES).rows]
    return history_of(measured, categories, [Noise(*row) for row in store.query(_NOISE).rows], also)


def _is_shown(metric: str) -> bool:
    return metric in METRICS or metric.endswith(Account.row_name("", ALL))


def write_otava(history: History, directory: Path) -> Path:
    """Files for the CSV importer of Apache Otava, and the configuration that names them, which is returned.

    A file for each test and host, with a row a version: `time`, `version`, and a column a figure. Otava takes no empty
    cell, so figures that other versions have are in a file of their own. Its time is that of the version's first run;
    where versions were not measured in their order, a time that keeps it, since Otava reads in the order of time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    groups: dict[tuple[str, str, tuple[str, ...]], list[Series]] = {}
    for one in history.series:
        groups.setdefault((one.test, one.host, tuple(one.labels)), []).append(one)
    tests: dict[str, dict[str, object]] = {}
    for (test, host, labels), series in groups.items():
        stem = re.sub(r"[^\w.-]+", "_", f"{test}-{host}")
        names = [stem, stem + "".join(f"-{one.metric}" for one in series)]
        # Of tests whose names differ in what a file's cannot hold.
        numbered = (f"{stem}-{number}" for number in itertools.count(2))
        name = next(one for one in itertools.chain(names, numbered) if one not in tests)
        path = directory.absolute() / f"{name}.csv"
        write_whole(path, _otava_rows(labels, series).encode())
        tests[name] = {
            "type": "csv", "file": str(path), "time_column": "time", "attributes": ["version"],
            "metrics": {one.metric: {"direction": -1 if one.higher_is_worse else 1} for one in series},
        }  # fmt: skip
    config = directory / "otava.yaml"
    # JSON is YAML.
    write_json(config, {"tests": tests, "test_groups": {"all": list(tests)}})
    return config


def _otava_rows(labels: Sequence[str], series: Sequence[Series]) -> str:
    times = [min(moments) for moments in zip(*(one.created for one in series), strict=True)]
    if times != sorted(set(times)):
        times = [f"2000-01-01 00:{place // 60:02}:{place % 60:02}" for place in range(len(labels))]
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["time", "version", *(one.metric for one in series)])
    for at, (label, when) in enumerate(zip(labels, times, strict=True)):
        rows.writerow([when, label, *(repr(one.value(at)) for one in series)])
    return text.getvalue()


def watch_release(store: Store, base: str, arm: str) -> Watch:
    """Two versions on the hosts that ran them, on the days on which both ran. MeasurementError where there are none."""
    store.query(_AS_WRITTEN)
    found = watch_of(store.query(stored_query("fleet.sql"), [base, arm]).as_dicts())
    if found is None:
        raise MeasurementError(
            f"{base} and {arm} cannot be compared by their hosts in {store.directory}",
            means="on one day, at least two hosts have to run each in the same test, on the same CPU and kernel",
            mend=shlex.join(["ioflame", "store", "sql", str(store.directory), _DAYS]),
        )
    return found
