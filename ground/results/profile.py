"""`profile.json`: one profile as `stackfold` folded it, for every table, graph and page.

Columns: the value of stack `i` is at index `i` of each column of `stacks`, and of `row` and `anchor` of a view.
`folding/src/artifact.rs`, which writes the file, describes the whole format.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ground.errors import MeasurementError
from ground.results.categories import Categories
from ground.results.files import Files
from ground.results.ranges import Clock, Count, OrNone, Place
from ground.system.atomic_files import read_json

SCHEMA = 1
# The row of code outside the categories, in every view.
OTHER = "other"


@dataclass(frozen=True)
class CutCopies:
    """Weight of samples whose stack continues beyond the end of its copy (`dwarf`).

    by_size: the copy has all the bytes that were asked for
    by_page: the kernel stopped sooner, at a page that was not in memory
    bytes:   that were asked for
    """

    by_size: Count
    by_page: Count
    bytes: Count


@dataclass(frozen=True)
class CutAt:
    """A function in which incomplete stacks end: the outermost one with a name. The heaviest are listed."""

    frame: str
    weight: Count


@dataclass(frozen=True)
class OtherEvent:
    """An event of the recording that was not folded; one without a sample is none."""

    event: str
    weight: Count


@dataclass(frozen=True)
class FoldStats:
    """What was folded: weights are sums of periods in `unit`, samples are counts; no event in an empty recording.

    truncated_input: why the input counts as cut short, None for a whole one
    lost_samples, filtered_samples: of the whole recording, by perf's own count, and those of other processes
    """

    event: str | None
    unit: str
    samples: Count
    weight: Count
    unique_stacks: Count
    lost_records: Count
    dropped_lines: Count
    incomplete_weight: Count
    unresolved_weight: Count
    cut_copies: CutCopies
    truncated_chains: Count
    largest_sample_weight: Count
    truncated_input: str | None = None
    other_events: list[OtherEvent] = field(default_factory=list)
    lost_samples: Count = 0
    filtered_samples: Count = 0
    cut_at: list[CutAt] = field(default_factory=list)

    def chains_end(self, most: int) -> str:
        """The functions in which incomplete stacks end, with their share of all weight; "" where none is known."""
        return ", ".join(f"{one.frame} ({one.weight / self.weight:.1%})" for one in self.cut_at[:most])


@dataclass(frozen=True)
class SymbolDifference:
    """A symbol whose self weight is not that of perf report, and why."""

    symbol: str
    folded: Count
    reported: Count
    reason: str


@dataclass(frozen=True)
class EventCheck:
    """An event of a recording by stackfold and by perf report; weights are sums of periods.

    symbols:     how many names either side knows; all nameless addresses are one
    differences: of self weights, the largest first
    """

    event: str
    equal: bool
    folded: Count
    reported: Count
    symbols: Count
    differences: list[SymbolDifference]


@dataclass(frozen=True)
class Checked:
    """How a fold compares with perf report; lost_samples: of the whole recording, whatever the process."""

    schema: int
    lost_samples: Count
    events: list[EventCheck]


@dataclass(frozen=True)
class _Frames:
    name: list[Place]
    object: list[Place]


@dataclass(frozen=True)
class _Threads:
    name: list[Place]
    pid: list[OrNone | None]
    tid: list[OrNone | None]


@dataclass(frozen=True)
class _Nodes:
    depth: list[Place]
    frame: list[Place]


@dataclass(frozen=True)
class _Stacks:
    thread: list[Place]
    node: list[Place]
    state: list[Place]
    weight: list[Count]
    samples: list[Count]


@dataclass(frozen=True)
class _View:
    """report: the table as `stackfold categories --format json` prints it, which is also most of `categories.json`."""

    report: dict[str, Any]
    row: list[Place]
    anchor: list[Place]


@dataclass(frozen=True)
class Slices:
    """What each slice of time holds; slice 0 begins at `start_ns` on the recording's clock."""

    length_ns: Count
    start_ns: Clock
    slice: list[Place]
    stack: list[Place]
    weight: list[Count]
    samples: list[Count]


@dataclass(frozen=True, slots=True)
class FoldedStack:
    """One stack of one thread.

    frames:  root first, kernel frames marked `_[k]`; the thread's name (comm) is none of them
    objects: the object (DSO) of each frame, "" where it is not known
    comm, tid: of the thread; tid is None where it is not known
    samples: None where the input does not count them
    state:   the frame that told it, one of `Folded.states`; "" where none did
    category, anchor: in the view asked for, and the depth of the frame that decided; `other` and -1 without
    """

    frames: tuple[str, ...]
    objects: tuple[str, ...]
    comm: str
    tid: int | None
    weight: Count
    samples: Count | None
    state: str = ""
    category: str = OTHER
    anchor: int = -1


@dataclass(frozen=True)
class Folded:
    """The columns of `profile.json`, and what their values mean.

    check: against perf report, where that was asked for; unchecked: why it could not be made, in perf's words
    """

    schema: int
    statistics: FoldStats
    names: list[str]
    objects: list[str]
    frames: _Frames
    threads: _Threads
    states: list[str]
    nodes: _Nodes
    stacks: _Stacks
    views: dict[str, _View] = field(default_factory=dict)
    slices: Slices | None = None
    check: Checked | None = None
    unchecked: str | None = None

    def each_stack(self, view: str | None = None) -> Iterator[FoldedStack]:
        """The stacks in the order of the columns: depth-first, those of one place by thread."""
        names = [self.names[name] for name in self.frames.name]
        objects = [self.objects[place] for place in self.frames.object]
        depth, frame = self.nodes.depth, self.nodes.frame
        path: list[int] = []
        at = -1
        counted = self.statistics.samples > 0
        columns = self.stacks
        rows = zip(columns.thread, columns.node, columns.state, columns.weight, columns.samples, strict=True)
        for (thread, node, state, weight, samples), (category, anchor) in zip(rows, self._placed(view), strict=False):
            for place in range(at + 1, node + 1):
                del path[depth[place] :]
                path.append(frame[place])
            at = max(at, node)
            inside = path[: depth[node] + 1] if node >= 0 else []
            yield FoldedStack(
                tuple([names[number] for number in inside]),
                tuple([objects[number] for number in inside]),
                self.names[self.threads.name[thread]],
                self.threads.tid[thread],
                weight,
                samples if counted else None,
                self.states[state] if state >= 0 else "",
                category,
                anchor,
            )

    def _placed(self, view: str | None) -> Iterator[tuple[str, int]]:
        if view is None:
            return itertools.repeat((OTHER, -1))
        found = self.views[view]
        rows = [row["name"] for row in found.report["rows"]]
        return ((rows[row], anchor) for row, anchor in zip(found.row, found.anchor, strict=True))

    def labels(self, view: str) -> list[tuple[str, str]]:
        """Name and label of each category of a view, in the order of its rules."""
        return [(row["name"], row["label"]) for row in self.views[view].report["rows"]]

    def of_threads(self, tids: Collection[int]) -> Folded:
        """The profile of these threads alone: their stacks, slices, and tables of the views."""
        return self._of([i for i, thread in enumerate(self.stacks.thread) if self.threads.tid[thread] in tids])

    def of_row(self, view: str, name: str) -> Folded:
        """The profile of the stacks of one row of a view."""
        index = [row["name"] for row in self.views[view].report["rows"]].index(name)
        return self._of([i for i, row in enumerate(self.views[view].row) if row == index])

    def _of(self, kept: Sequence[int]) -> Folded:
        index_of = {stack: i for i, stack in enumerate(kept)}
        columns = {name: [column[i] for i in kept] for name, column in vars(self.stacks).items()}
        views = {name: self._view_of(view, kept) for name, view in self.views.items()}
        slices = self.slices
        if slices is not None:
            rows = [i for i, stack in enumerate(slices.stack) if stack in index_of]
            slices = Slices(
                slices.length_ns, slices.start_ns, [slices.slice[i] for i in rows],
                [index_of[slices.stack[i]] for i in rows], [slices.weight[i] for i in rows],
                [slices.samples[i] for i in rows],
            )  # fmt: skip
        return replace(self, stacks=_Stacks(**columns), views=views, slices=slices)

    def _view_of(self, view: _View, kept: Sequence[int]) -> _View:
        """The view of some stacks, and its table. Of what no rule knows, the frames listed are those listed before."""
        weight, samples = [0] * len(view.report["rows"]), [0] * len(view.report["rows"])
        for i in kept:
            weight[view.row[i]] += self.stacks.weight[i]
            samples[view.row[i]] += self.stacks.samples[i]
        total = sum(weight)
        rows = [
            {**row, "weight": own, "share": 100 * own / total if total else 0.0,
             "samples": None if row.get("samples") is None else count}
            for row, own, count in zip(view.report["rows"], weight, samples, strict=True)
        ]  # fmt: skip
        known = {frame["frame"] for frame in view.report["other_frames"]}
        others: dict[str, int] = {}
        chosen = set(kept)
        for i, stack in enumerate(self.each_stack()):
            if i in chosen and view.report["rows"][view.row[i]]["name"] == OTHER:
                frame = next((name for name in reversed(stack.frames) if name in known), None)
                if frame is not None:
                    others[frame] = others.get(frame, 0) + stack.weight
        named = [
            {"frame": frame, "weight": own, "share": 100 * own / total if total else 0.0}
            for frame, own in sorted(others.items(), key=lambda one: (-one[1], one[0]))
        ]
        report = {**view.report, "rows": rows, "total_weight": total, "other_frames": named}
        return _View(report, [view.row[i] for i in kept], [view.anchor[i] for i in kept])

    def weight_by_comm(self) -> dict[str, int]:
        """The weight of the threads of each name."""
        sums: dict[str, int] = {}
        for thread, weight in zip(self.stacks.thread, self.stacks.weight, strict=True):
            name = self.names[self.threads.name[thread]]
            sums[name] = sums.get(name, 0) + weight
        return sums


def read_profile(path: Path) -> Folded:
    """MeasurementError where the file is missing, of another form, or its columns do not fit together."""
    found = read_json(path, Folded, "a profile of stackfold")
    if found.schema != SCHEMA:
        raise MeasurementError(f"{path} has schema {found.schema}; this ioflame reads schema {SCHEMA}")
    try:
        for view in found.views.values():
            msgspec.convert(view.report, Categories)
    except msgspec.ValidationError as error:
        raise _broken(path, f"a view's table is none: {error}") from None
    for what, column, low, high in _bounds(found):
        if any(not low <= value < high for value in column):
            raise _broken(path, f"a {what} is out of its range")
    steps = zip([-1, *found.nodes.depth], found.nodes.depth, strict=False)
    if any(depth > before + 1 for before, depth in steps) or found.stacks.node != sorted(found.stacks.node):
        raise _broken(path, "the nodes are not in depth-first order")
    for what, columns in _same_length(found):
        if len({len(column) for column in columns}) > 1:
            raise _broken(path, f"the columns of the {what} differ in length")
    return found


def _bounds(found: Folded) -> Iterator[tuple[str, Sequence[int], int, int]]:
    """What each number may be: from the first to below the second."""
    names, stacks = len(found.names), len(found.stacks.thread)
    yield "frame's name", found.frames.name, 0, names
    yield "frame's object", found.frames.object, 0, len(found.objects)
    yield "thread's name", found.threads.name, 0, names
    yield "node's frame", found.nodes.frame, 0, len(found.frames.name)
    yield "node's depth", found.nodes.depth, 0, len(found.nodes.depth)
    yield "stack's thread", found.stacks.thread, 0, len(found.threads.name)
    yield "stack's node", found.stacks.node, -1, len(found.nodes.frame)
    yield "stack's state", found.stacks.state, -1, len(found.states)
    for view in found.views.values():
        yield "row of a view", view.row, 0, len(view.report["rows"])
        yield "anchor of a view", view.anchor, -1, len(found.nodes.frame)
    if found.slices is not None:
        yield "stack of a slice", found.slices.stack, 0, stacks
        # A day in slices of a ms.
        yield "slice", found.slices.slice, 0, 86_400_000


def _same_length(found: Folded) -> Iterator[tuple[str, list[Sequence[object]]]]:
    stacks, slices = found.stacks, found.slices
    yield "frames", [found.frames.name, found.frames.object]
    yield "threads", [found.threads.name, found.threads.pid, found.threads.tid]
    yield "nodes", [found.nodes.depth, found.nodes.frame]
    placed = [column for view in found.views.values() for column in (view.row, view.anchor)]
    yield "stacks", [stacks.thread, stacks.node, stacks.state, stacks.weight, stacks.samples, *placed]
    if slices is not None:
        yield "slices", [slices.slice, slices.stack, slices.weight, slices.samples]


def _broken(path: Path, why: str) -> MeasurementError:
    return MeasurementError(f"{path} is inconsistent: {why}", means="it was changed since stackfold wrote it")


def mapped_objects(directory: Path) -> set[str]:
    """The objects that any frame of a run is of, by the paths that they were mapped under; of one that was not folded
    all that its target had mapped to be run, and the kernel."""
    folded = [path for name in (Files.PROFILE, Files.OFF_CPU_PROFILE, Files.PMP_PROFILE)
              if (path := directory / name).exists()]  # fmt: skip
    mapped = directory / Files.MAPPED_PATHS
    if not folded and mapped.exists():
        return {*read_json(mapped, list[str]), "[kernel.kallsyms]"}
    return {name for path in folded for name in read_profile(path).objects} - {""}
