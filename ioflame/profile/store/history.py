"""What a store holds of the versions of an engine, for the page of its history; and as CSV for Apache Otava."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from ioflame.analysis.history import Category, History, Measured, Noise, history_of
from ioflame.results.store.database import Store, stored_query
from ioflame.system.atomic_files import write_whole

__all__ = ("read_history", "write_otava")

_CATEGORIES = """SELECT test, host, label, category, us, sd, runs FROM us_per_query WHERE "view" = 'owner'"""
_NOISE = """SELECT host, strftime(day, '%Y-%m-%d'), runs, qps_sd, cpu_sd, twin_mean, twin_sd FROM noise
            WHERE qps_sd IS NOT NULL"""


def read_history(store: Store) -> History:
    measured = [
        Measured(row["test"], row["host"], row["label"], row["metric"], row["value"], row["round"], str(row["created"]))
        for row in store.query(stored_query("history.sql")).as_dicts()
    ]
    categories = [Category(*row) for row in store.query(_CATEGORIES).rows]
    return history_of(measured, categories, [Noise(*row) for row in store.query(_NOISE).rows])


def write_otava(history: History, directory: Path) -> list[Path]:
    """A file for each test and host, with a row a version: `time`, `version`, and a column a figure, for the CSV
    importer of Apache Otava. Its time is that of the version's first run; where versions were not measured in their
    order, a time that keeps it, since Otava reads in the order of time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for test, host in dict.fromkeys((one.test, one.host) for one in history.series):
        series = [one for one in history.series if (one.test, one.host) == (test, host)]
        created = {label: when for one in series for label, when in zip(one.labels, one.created, strict=True)}
        labels = [label for label in history.versions if label in created]
        times = [created[label] for label in labels]
        if times != sorted(set(times)):
            times = [f"2000-01-01 00:{place // 60:02}:{place % 60:02}" for place in range(len(labels))]
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(["time", "version", *(one.metric for one in series)])
        for label, when in zip(labels, times, strict=True):
            values = [repr(one.value(one.labels.index(label))) if label in one.labels else "" for one in series]
            rows.writerow([when, label, *values])
        path = directory / (re.sub(r"[^\w.-]+", "_", f"{test}-{host}") + ".csv")
        write_whole(path, text.getvalue().encode())
        written.append(path)
    return written
