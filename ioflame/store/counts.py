"""What `ioflame count` counted as rows of the store: a run for each operation of an arm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from ground.results.counted import BASELINE, CountedArm, CountRecord, CountRun, Event, OfOperation
from ground.results.store.database import RunTables
from ioflame.analysis.counted_verdicts import spread
from ioflame.store.runs import artifact_row, run_name, utc

# By their names among the figures.
_FIGURES = {"instructions": Event.INSTRUCTIONS, "mispredictions": Event.MISPREDICTIONS}


def counted_tables(directory: Path) -> list[RunTables]:
    """An arm that was taken from an earlier count is in that one; an operation that an arm lacks is left out."""
    record = CountRun.open(directory).record
    return [
        _of(record, arm, name, of, directory)
        for name, of in record.operations.items()
        for arm in record.arms
        if arm.name != BASELINE and arm.name in of.arms and of.arms[arm.name].operations
    ]


def _of(record: CountRecord, arm: CountedArm, operation: str, of: OfOperation, directory: Path) -> RunTables:
    depends_on = json.dumps(record.depends_on, sort_keys=True)
    made = run_name(record.created, f"count {operation}", depends_on, record.trees, arm.name, arm.tools)
    tables = RunTables(made, utc(record.created)[:10])
    # Counts are the same on every host that has the same of these, and of no other.
    way = "callgrind" if "valgrind" in record.depends_on else "processor"
    host = f"{way} {hashlib.blake2b(depends_on.encode(), digest_size=3).hexdigest()}"
    built = artifact_row(arm.tools, arm.version)
    tables.add(
        "runs", campaign="", session=None, arm=arm.name, base="", twin=False, created=utc(record.created),
        engine=record.engine, workload=operation, test=f"{operation} counted", threads=1, factor="", label=arm.name,
        host=host, artifact=built["artifact"], tree="", probability=1.0, ioflame=record.ioflame, source="count",
        raw_path=str(directory), raw_sha256="", settings=json.dumps({"command": record.commands.get(operation, "")}),
    )  # fmt: skip
    tables.add("hosts", host=host, boot="", facts=depends_on)
    tables.add("artifacts", **built)
    for row in _figures(of, arm.name):
        tables.add("figures", **row)
    return tables


def _figures(of: OfOperation, arm: str) -> Iterator[dict[str, object]]:
    counted = of.arms[arm]
    for metric, event in _FIGURES.items():
        found = spread(counted, event)
        if found is not None:
            yield {"metric": metric, "value": found.middle, "low": found.low, "high": found.high,
                   "n": len(counted.events[event])}  # fmt: skip
