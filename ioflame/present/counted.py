"""The tables of a count: on the screen, and in its directory."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from ground.results.counted import BASELINE, Counted, CountRecord, Event, OfOperation, write_count
from ground.results.files import Files
from ground.system.atomic_files import write_whole
from ioflame.analysis.counted_verdicts import Against, CountVerdict, against, not_repeatable, spread
from viz.terminal.counted import Block, render_counts, render_operation

__all__ = ("failures", "write_pages")


def write_pages(directory: Path, record: CountRecord, width: int | None) -> str:
    """What is printed; the same with all categories is written to the directory, beside the counts."""
    write_count(directory, record)
    every = {name: _views(of) for name, of in record.operations.items()}
    write_whole(directory / Files.SUMMARY, f"{_tables(record, every, None)}\n".encode())
    shown = {name: [of.view] for name, of in record.operations.items()} if len(record.operations) == 1 else {}
    return _tables(record, shown, width)


def _views(of: OfOperation) -> list[str]:
    return list(dict.fromkeys(view for one in of.arms.values() for view in one.views))


def _tables(record: CountRecord, operations: Mapping[str, Sequence[str]], width: int | None) -> str:
    """operations: those that have tables of their own, with the views of these."""
    medians = {
        name: {arm: found.middle for arm, one in of.arms.items() if (found := spread(one, Event.INSTRUCTIONS))}
        for name, of in record.operations.items()
    }
    verdicts = {name: {arm: _worded(one) for arm, one in of.items()} for name, of in _verdicts(record).items()}
    parts = [render_counts(record, medians, verdicts, width)]
    parts += [render_operation(record, name, _blocks(record, name, views), width) for name, views in operations.items()]
    return "\n\n".join(parts)


def _verdicts(record: CountRecord) -> dict[str, dict[str, Against]]:
    """By operation and arm, of all arms but the base."""
    base, *others = (arm.name for arm in record.arms)
    found = {}
    for name, of in record.operations.items():
        first = of.arms.get(base, Counted())
        found[name] = {arm: against(first, of.arms[arm]) for arm in others}
    return found


def _worded(one: Against) -> str:
    if one.verdict is CountVerdict.NOT_COUNTED:
        return str(one.verdict.value)
    if one.verdict is CountVerdict.SAME:
        return f"same within {max(one.tells, abs(one.change)):.3%}"
    return f"{one.change:+.2%} {one.verdict.value}"


def _blocks(record: CountRecord, operation: str, views: Sequence[str]) -> list[Block]:
    """Medians of the arms: of each event, then of instructions and mispredictions by category of these views."""
    arms = [record.operations[operation].arms.get(arm.name, Counted()) for arm in record.arms]
    events = {event.value: [_middle(one, event) for one in arms] for event in Event}
    blocks = [Block("", events)]
    for view in views:
        names = dict.fromkeys(row.name for one in arms for row in one.views.get(view, []))
        for event in (Event.INSTRUCTIONS, Event.MISPREDICTIONS):
            rows = {name: [_of_category(one, view, name, event) for one in arms] for name in names}
            blocks.append(Block(f"{event.value} by {view}", rows))
    return blocks


def _middle(one: Counted, event: Event) -> float | None:
    found = spread(one, event)
    return found.middle if found else None


def _of_category(one: Counted, view: str, name: str, event: Event) -> float | None:
    counts = next((row.events.get(event) for row in one.views.get(view, []) if row.name == name), None)
    return statistics.median(counts) / one.operations if counts and one.operations else None


def failures(record: CountRecord, allowed: float | None, limits: Mapping[str, float]) -> list[str]:
    """Lines on what ends with exit code 1.

    allowed: the part by which an operation may take more than the base; limits: instructions, by operation
    """
    lines = []
    for name, of in record.operations.items():
        for arm, one in of.arms.items():
            if arm == BASELINE:
                continue
            if (off := not_repeatable(one)) is not None:
                lines.append(
                    f"not repeatable: {name} of {arm} differs by {off:.3%} from itself with the same padding: "
                    "a thread, a clock or an address decides what it does"
                )
            taken = spread(one, Event.INSTRUCTIONS)
            if name in limits and taken is not None and taken.middle > limits[name]:
                lines.append(
                    f"above its limit: {name} of {arm} takes {taken.middle:,.0f}, the limit is {limits[name]:,.0f}"
                )
    if allowed is not None:
        lines += [
            f"above --fail-above: {name} of {arm} takes {one.change:+.2%}, {allowed:.2%} is allowed"
            for name, of in _verdicts(record).items()
            for arm, one in of.items()
            if one.change > allowed and one.change > one.tells
        ]
    return lines
