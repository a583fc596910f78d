"""Records built in code, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ground.results.profile import Folded, Slices
from ground.results.record import SCHEMA, Counters, ProfileFacts, RunRecord, Window

SECOND = 1_000_000_000

_ZERO = Counters(None, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def counters(**values: Any) -> Counters:
    """Counters that are all zero but for `values`; the queries are not known."""
    return replace(_ZERO, **values)


def window(kind: str, seconds: float = 1.0, note: str = "", begin: int = 100, /, **values: Any) -> Window:
    """A window from second `begin` on, with these counters."""
    begin_ns = begin * SECOND
    return Window(kind, begin_ns, begin_ns + int(seconds * SECOND), counters(**values), note)


def profile_facts(event: str = "cpu-clock", **changes: Any) -> ProfileFacts:
    """What a run says of its profile: of the whole system, by a clock or by cycles."""
    unit = "ns" if event.startswith("cpu-clock") else "cycles"
    return replace(ProfileFacts(event, unit, 999, "system", "fp", []), **changes)


def run_record(workload: str = "readrandom", **changes: Any) -> RunRecord:
    """A record of a run of one thread of RocksDB with nothing in it but `changes`."""
    return replace(RunRecord(SCHEMA, "0", "now", workload, "rocksdb", 1, {}), **changes)


def folded(
    views: Mapping[str, Mapping[str, Sequence[int]]], weights: Sequence[int], slices: Slices | None = None
) -> Folded:
    """A profile of stacks of one frame, a sample for each unit of their weights.

    views: by name the categories, each with the stacks that are in it; the last of them is `other`
    """
    cut = {"by_size": 0, "by_page": 0, "bytes": 0}
    numbers = ("unique_stacks", "lost_records", "dropped_lines", "incomplete_weight", "unresolved_weight",
               "truncated_chains", "largest_sample_weight")  # fmt: skip
    statistics = {"event": "cpu-clock", "unit": "ns", "cut_copies": cut, **dict.fromkeys(numbers, 0),
                  "samples": sum(weights), "weight": sum(weights)}  # fmt: skip
    none = [0] * len(weights)
    columns = {"thread": none, "node": none, "state": [-1] * len(weights), "weight": weights, "samples": weights}
    return msgspec.convert(
        {
            "schema": 1, "statistics": statistics, "names": ["db_bench"], "objects": [""],
            "frames": {"name": [0], "object": [0]}, "threads": {"name": [0], "pid": [1], "tid": [1]}, "states": [],
            "nodes": {"depth": [0], "frame": [0]}, "stacks": columns, "slices": slices,
            "views": {name: _view(name, categories, weights) for name, categories in views.items()},
        },
        Folded, from_attributes=True,
    )  # fmt: skip


def _view(name: str, categories: Mapping[str, Sequence[int]], weights: Sequence[int]) -> dict[str, Any]:
    total = sum(weights)
    rows = []
    for category, stacks in categories.items():
        weight = sum(weights[stack] for stack in stacks)
        rows.append({"name": category, "label": "", "weight": weight, "share": 100 * weight / total, "samples": weight})
    place = {stack: row for row, stacks in enumerate(categories.values()) for stack in stacks}
    report = {"view": name, "rules_checked": [], "total_weight": total, "rows": rows, "other_frames": []}
    row = [place[stack] for stack in range(len(weights))]
    return {"report": report, "row": row, "anchor": [-1 if one == len(rows) - 1 else 0 for one in row]}
