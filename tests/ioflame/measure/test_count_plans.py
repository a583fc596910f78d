"""Counts of commands are refused before anything starts; what programs count is kept by its padding."""

from __future__ import annotations

import pytest

from folding.callgrind import CountedRow, Counts
from ground.errors import UsageError
from ground.results.counted import Counted, Event
from ioflame.measure.compare.counted import planned_beside
from ioflame.measure.count.command import planned_command
from ioflame.measure.count.keep import keep
from ioflame.measure.count.plan import PADDINGS, check_repeats


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
