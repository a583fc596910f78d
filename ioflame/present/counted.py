"""How a count is shown: on the screen, as `summary.txt`, and as a page."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.results.compilers import compilers_apart
from ground.results.counted import BASELINE, Counted, CountRecord, CountRun, Event, OfOperation
from ground.results.files import Files
from ground.system.atomic_files import read_text, write_whole
from ioflame.analysis.counted_verdicts import Against, CountVerdict, against, not_repeatable, spread
from viz.page.counted import render_count
from viz.page.document import write_page
from viz.tables.counted import (
    NOT_COUNTED,
    NOT_COUNTED_BY_PROCESSOR,
    Block,
    CountView,
    OperationView,
    count_section,
    render_count_markdown,
)
from viz.terminal.table import section_text

# By which the files that an operation leaves may differ.
_SAME_WORK = 0.01
# Functions whose own counts differ, at most.
_FUNCTIONS = 15
_CATEGORIES = (Event.INSTRUCTIONS, Event.MISPREDICTIONS)


@dataclass(frozen=True)
class Shown:
    """A count in words. sentence: the verdict on the last arm, in a line; view: what the words are made of"""

    text: str
    markdown: str
    sentence: str
    view: CountView


def write_pages(directory: Path, record: CountRecord, width: int | None) -> Shown:
    """What can be printed; the same with all categories is written to the directory, beside the counts."""
    CountRun(directory, record).save()
    every = _view(directory, record, {name: _views(of) for name, of in record.operations.items()})
    write_whole(directory / Files.SUMMARY, f"{section_text(count_section(every, set(record.operations)))}\n".encode())
    shown = _view(directory, record, {name: [of.view] for name, of in record.operations.items()})
    write_page(render_count(shown), directory / Files.REPORT)
    whole = set(record.operations) if len(record.operations) == 1 else ()
    text = section_text(count_section(shown, whole), width)
    return Shown(text, render_count_markdown(shown), shown.sentence, shown)


def _views(of: OfOperation) -> list[str]:
    return list(dict.fromkeys(view for one in of.arms.values() for view in one.views))


def _view(directory: Path, record: CountRecord, views: Mapping[str, Sequence[str]]) -> CountView:
    """views: by operation, those of the categories that are shown"""
    verdicts = _verdicts(record)
    operations = []
    for name, of in record.operations.items():
        arms = [of.arms.get(arm.name, Counted()) for arm in record.arms]
        blocks = [*_blocks(arms, views[name]), _functions(directory / name, record, of)]
        told = [_worded(one) for one in verdicts[name].values()]
        lacks = {arm: one.lacks for arm, one in of.arms.items() if one.lacks}
        instructions = [_middle(one, Event.INSTRUCTIONS) for one in arms]
        operations.append(OperationView(name, of.about, of.per, instructions, told, lacks, blocks))
    title, unseen = _way(record.depends_on)
    names = [arm.name for arm in record.arms]
    return CountView(title, names, record.depends_on, operations, _notes(record), unseen)


def _way(depends_on: Mapping[str, str]) -> tuple[str, str]:
    """Who counted, and what that does not see."""
    if "valgrind" in depends_on:
        return f"Instructions, counted by callgrind (valgrind {depends_on['valgrind']})", NOT_COUNTED
    counted = f"{depends_on['counted by']}; {depends_on['processor']}"
    return f"Instructions, counted by the processor ({counted})", NOT_COUNTED_BY_PROCESSOR


def _notes(record: CountRecord) -> list[str]:
    """Of compilers that differ, and of work that is not the same."""
    apart = compilers_apart({arm.name: (arm.version, arm.tools.get("engine_compiler", "")) for arm in record.arms})
    notes = [apart] if apart else []
    for name, of in record.operations.items():
        base = of.arms.get(record.arms[0].name, Counted()).stored
        for arm, one in of.arms.items():
            if base and one.stored and abs(one.stored / base - 1) > _SAME_WORK:
                notes.append(f"{name}: the files of {arm} are {one.stored / base - 1:+.1%} in size: it is other work.")
    return notes


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
        said = f"same within {max(one.tells, abs(one.change)):.3%}"
    elif one.verdict is CountVerdict.SLIGHT:
        said = f"{one.change:+.2%} ({one.verdict.value})"
    else:
        said = f"{one.change:+.2%} {one.verdict.value}"
    if not one.doubted:
        return said
    # What speaks against the instructions, or would.
    other = "" if one.mispredictions is None else f" (mispredictions {one.mispredictions:+.0%})"
    return f"{said}; measure time{other}"


def _blocks(arms: Sequence[Counted], views: Sequence[str]) -> list[Block]:
    """Medians of the arms: of each event, then by category of these views."""
    blocks = [Block("event", "", {event.value: [_middle(one, event) for one in arms] for event in Event})]
    for view in views:
        names = dict.fromkeys(row.name for one in arms for row in one.views.get(view, []))
        for event in _CATEGORIES:
            rows = {name: [_of_category(one, view, name, event) for one in arms] for name in names}
            blocks.append(Block("category", f"{event.value} by {view}", rows, stacks=True))
    return blocks


def _middle(one: Counted, event: Event) -> float | None:
    found = spread(one, event)
    return found.middle if found else None


def _of_category(one: Counted, view: str, name: str, event: Event) -> float | None:
    counts = next((row.events.get(event) for row in one.views.get(view, []) if row.name == name), None)
    return statistics.median(counts) / one.operations if counts and one.operations else None


def _functions(place: Path, record: CountRecord, of: OfOperation) -> Block:
    """Functions' own instructions, of those that differ most between the first and the last arm, or weigh most."""
    own = [_own(place / f"{arm.name}.folded", of.arms.get(arm.name, Counted()).operations) for arm in record.arms]
    names = {name for one in own for name in one}
    first, last = own[0], own[-1]
    alone = len(own) == 1 or not first

    def weighs(name: str) -> float:
        return last.get(name, 0.0) if alone else abs(last.get(name, 0.0) - first.get(name, 0.0))

    most = sorted(names, key=lambda name: (-weighs(name), name))[:_FUNCTIONS]
    title = "instructions by function" if alone else "functions that differ most"
    counts = {name: [one.get(name, 0.0) if one else None for one in own] for name in most if weighs(name)}
    return Block("function", title, counts)


def _own(folded: Path, operations: int) -> dict[str, float]:
    """By function, its own instructions per operation; of the baseline's arm, whose stacks are not here, nothing."""
    if not folded.exists() or not operations:
        return {}
    sums: Counter[str] = Counter()
    for line in read_text(folded).splitlines():
        stack, _, weight = line.rpartition(" ")
        sums[stack.rpartition(";")[2]] += int(weight)
    return {name: weight / operations for name, weight in sums.items()}


def failures(record: CountRecord, allowed: float | None, limits: Mapping[str, float]) -> list[str]:
    """Lines on what ends with exit code 1.

    allowed: the part by which an operation may take more than the base; limits: instructions, by operation
    """
    lines = []
    for name, of in record.operations.items():
        for arm, one in of.arms.items():
            if arm == BASELINE:
                continue
            if (off := not_repeatable(one, of.repeats_within)) is not None:
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
