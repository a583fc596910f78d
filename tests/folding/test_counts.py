"""What is read of callgrind's file for a count: events below a root, and calls of allocators and locks."""

from __future__ import annotations

from pathlib import Path

import pytest

from folding.callgrind import counts_below
from ground.errors import MeasurementError
from ground.results.counted import Event
from workloads.registry import rules_named

# One Get within the client's call, which allocates once by way of `operator new`, and once by itself; a scan beside it.
COUNTED = """version: 1
creator: callgrind-3.19.0
pid: 42
cmd: ./bench
part: 1

desc: Trigger: Client Request: get
positions: line
events: Ir Bcm Ge sysCount

fn=(1) rocksdb::DBImpl::Get(int)'one'main
16 100 3 2 1
cfn=(2) malloc'rocksdb::DBImpl::Get(int)'one'main
calls=2 10
* 20 0
cfn=(3) operator new(unsigned long)'rocksdb::DBImpl::Get(int)'one'main
calls=3 11
* 60 0
cfn=(5) pthread_mutex_lock'rocksdb::DBImpl::Get(int)'one'main
calls=7 11
* 70 0

fn=(2)
10 20

fn=(3)
11 30
cfn=(4) malloc'operator new(unsigned long)'rocksdb::DBImpl::Get(int)'one'main
calls=3 10
* 30

fn=(4)
10 30

fn=(5)
11 70

fn=(6) scan'main
11 5000 9 9 9

totals: 5250 12 11 10
"""


def test_events_are_those_below_the_root_and_calls_count_once(tmp_path: Path) -> None:
    path, folded = tmp_path / "counts", tmp_path / "stacks"
    path.write_text(COUNTED)
    found = counts_below([path], "one", rules_named("rocksdb").categories, folded)
    assert found.events == {
        Event.INSTRUCTIONS: 250, Event.MISPREDICTIONS: 3, Event.LOCKED: 2, Event.SYSTEM_CALLS: 1, Event.ALLOCATIONS: 5,
        Event.MUTEX_LOCKS: 7,
    }  # fmt: skip
    for rows in found.views.values():
        for event in (Event.INSTRUCTIONS, Event.MISPREDICTIONS, Event.LOCKED):
            assert sum(row.events[event] for row in rows) == found.events[event]
    leaf = {row.name: row.events[Event.INSTRUCTIONS] for row in found.views["leaf"]}
    assert (leaf["allocator"], leaf["mutex"]) == (80, 70)
    assert "scan" not in folded.read_text()


def test_an_event_that_did_not_come_is_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(COUNTED.replace("16 100 3 2 1", "16 100 3").replace("5250 12 11 10", "5250 12 9 9"))
    found = counts_below([path], "one", rules_named("rocksdb").categories)
    assert found.events[Event.LOCKED] == found.events[Event.SYSTEM_CALLS] == 0


def test_a_root_that_was_not_called_and_a_file_that_was_cut_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(COUNTED)
    with pytest.raises(MeasurementError, match="nothing was counted below two"):
        counts_below([path], "two", rules_named("rocksdb").categories)
    path.write_text(COUNTED.partition("totals")[0])
    with pytest.raises(MeasurementError, match="before its totals"):
        counts_below([path], "one", rules_named("rocksdb").categories)
