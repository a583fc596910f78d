"""Ranges of numbers in result files: checked where a file is read, with the place of what cannot be."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

import ground.results
from ground.results.bisect import Measured
from ground.results.cells import Baseline
from ground.results.interval import Interval
from ground.results.job_costs import JobCosts
from ground.results.jobs import RunJobs
from ground.results.off_cpu import WallClock
from ground.results.ranges import Amount, Count, Signed, Windowed


@dataclass
class Window(Windowed):
    start_ns: Count
    end_ns: Count
    queries: Amount | None = None


# Types without ranges of their own, and why.
_NOT_READ = {
    "benchmark_report.ReportRow": "of a CSV file, whose reader takes numbers above 0",
    "metrics.Carried": "worked out of windows",
    "files_at_paths.FileAtPath": "written for stackfold alone",
    "cells.Heading": "code, in no file",
    "metrics.Metric": "code, in no file",
    "off_cpu.OffStack": "made of a profile and its recording",
    "profile.FoldedStack": "made of a profile's columns",
    "query_records.QueryRecord": "unsigned in its binary file",
    "query_records.Span": "unsigned in its binary file",
    "query_records.RecordFile": "its clocks are checked by its reader",
    "requests.Request": "unsigned in its binary file",
    "roles.RoleFigures": "worked out of windows",
    "run_list.ListedRun": "worked out of runs",
    "verdicts.ComparedRuns": "worked out of runs",
}


def _without_range(hint: Any) -> Iterator[type]:
    """The numbers of a type that have neither a range nor a reason."""
    if get_origin(hint) is Annotated:
        assert all(meta.description or {meta.ge, meta.gt} != {None} for meta in hint.__metadata__), hint
    elif hint in (int, float):
        yield hint
    else:
        for part in get_args(hint):
            yield from _without_range(part)


def _results() -> Iterator[tuple[str, type]]:
    for module in pkgutil.walk_packages(ground.results.__path__, f"{ground.results.__name__}."):
        for name, found in vars(importlib.import_module(module.name)).items():
            if isinstance(found, type) and found.__module__ == module.name and "__annotations__" in vars(found):
                yield f"{module.name.removeprefix('ground.results.')}.{name}", found


def test_every_number_of_a_result_has_a_range_or_a_reason_for_none() -> None:
    without = {}
    for name, result in _results():
        fields = [
            field
            for field, hint in get_type_hints(result, include_extras=True).items()
            # Its reader compares `schema` with the one that it knows.
            if field != "schema" and list(_without_range(hint))
        ]
        if fields:
            without[name] = fields
    assert without.keys() == _NOT_READ.keys(), without


@pytest.mark.parametrize(
    ("text", "form", "says"),
    [
        ('{"start_ns": 7, "end_ns": 7, "queries": 0}', Window, ""),
        ('{"start_ns": -1, "end_ns": 7}', Window, r"Expected `int` >= 0 - at `\$.start_ns`"),
        ('{"start_ns": 1, "end_ns": 9223372036854775808}', Window, r"at `\$.end_ns`"),
        ('{"start_ns": 1, "end_ns": 2, "queries": -5}', Window, r"Expected `float` >= 0.0 - at `\$.queries`"),
        ('{"start_ns": 2000, "end_ns": 1}', Window, "it ends 1,999 ns before it begins"),
        ('{"estimate": -2, "low": -3, "high": -1, "n": 5}', Interval, ""),
        # A bootstrap of few values may leave its estimate out.
        ('{"estimate": 2, "low": 3, "high": 3, "n": 5}', Interval, ""),
        ('{"estimate": 2, "low": 3, "high": 1, "n": 5}', Interval, "its interval is from 3 to 1"),
        ('{"estimate": 2, "low": 1, "high": 3, "n": -5}', Interval, r"at `\$.n`"),
        ('{"elapsed_ns": 1, "threads": -1}', WallClock, r"at `\$.threads`"),
        ('{"candidate": -1, "ends": [-0.5]}', Measured, r"at `\$.candidate`"),
        ('{"iops": -1}', Baseline, r"at `\$.iops`"),
        ('{"seconds": 1, "queries_are": "query", "rows": [{"bytes_in": -1}]}', JobCosts, r"at `\$.rows\[0\].bytes_in`"),
        ('{"clocks": [[1, -2]]}', RunJobs, r"at `\$.clocks\[0\]\[1\]`"),
        ("-1.5", Signed, ""),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_read(text: str, form: Any, says: str) -> None:
    if not says:
        assert msgspec.to_builtins(msgspec.json.decode(text, type=form)) == msgspec.json.decode(text)
        return
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.json.decode(text, type=form)
