"""Counts of commands are refused before anything starts; what programs count is kept by its padding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folding.callgrind import CountedRow, Counts
from ground.errors import HostError, MeasurementError, UsageError
from ground.results.counted import Counted, Event
from ground.system.binaries import built_binary
from ioflame.measure.compare.counted import planned_beside
from ioflame.measure.count.command import planned_command
from ioflame.measure.count.counters import Processor
from ioflame.measure.count.keep import keep
from ioflame.measure.count.plan import PADDINGS, check_repeats
from workloads.counted_operations import CountedOperation


def test_beside_a_comparison_builds_alone_are_counted() -> None:
    with pytest.raises(UsageError, match="the arms differ by more than their builds"):
        planned_beside([], "cache_type", [])


def counts(number: int) -> Counts:
    row = CountedRow("LRU", "the block cache", {Event.INSTRUCTIONS: number})
    return Counts({Event.INSTRUCTIONS: number}, {"owner": [row]})


def test_counts_stand_at_their_padding_whichever_ended_first() -> None:
    found = Counted()
    for turn in (2, 0, 3, 1):
        keep(found, counts(100 + turn), 50, turn, 3)
    assert found.events == {Event.INSTRUCTIONS: [100, 101, 102]}
    assert (found.again, found.operations) == (103, 50)
    (row,) = found.views["owner"]
    assert row.events == {Event.INSTRUCTIONS: [100, 101, 102]}


def test_a_command_without_a_function_or_a_program_is_refused() -> None:
    with pytest.raises(UsageError, match="--per is not given") as refused:
        planned_command(["./a b", "--x"], "", "rocksdb", 2)
    assert refused.value.mend == "--per <one of its functions> -- './a b' --x"
    with pytest.raises(UsageError, match="/no/such is not found"):
        planned_command(["/no/such"], "main", "rocksdb", 2)


def test_a_range_takes_two_counts_and_paddings_move_stacks() -> None:
    for repeats in (1, len(PADDINGS) + 1):
        with pytest.raises(UsageError, match=f"--repeats {repeats} is not within 2 and 5"):
            check_repeats(repeats)
    check_repeats(2)
    assert len(set(PADDINGS)) == len(PADDINGS) and all(padding % 16 == 0 for padding in PADDINGS)


def test_what_the_processor_counts_is_read_from_the_clients_closing_line() -> None:
    operation = CountedOperation("get", "Get", benchmarks="readrandom")
    closing = {"benchmark": "readrandom", "phases": 2, "operations": 5, "events": {"page-faults": [3, 4]}}
    counter = Processor({Event.INSTRUCTIONS: "page-faults"})
    assert counter.words == ["--counted_events=page-faults"]
    found = counter.counts(Path(), json.dumps(closing), operation, "", None)
    assert (found.events, found.views) == ({Event.INSTRUCTIONS: 7}, {})
    with pytest.raises(MeasurementError, match="the client printed no counts of get: Killed"):
        counter.counts(Path(), "Killed", operation, "", None)


def test_a_processor_without_the_counter_is_refused_with_what_works_without() -> None:
    with pytest.raises(HostError, match="cycles-of-nothing is not known") as refused:
        Processor.found(built_binary("ioflame-client"), "readrandom", {Event.INSTRUCTIONS: "cycles-of-nothing"})
    assert refused.value.mend == "--by callgrind, which needs no counter"
