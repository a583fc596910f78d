"""The table of a write path, for page and terminal: stages of leaders, followers and all writes, us a write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.results.write_ladder import (
    FOLLOWERS,
    QUEUE,
    WAITS,
    WRITE_STAGES,
    StallCause,
    WriteLadder,
    WriteRole,
    stage_sum,
)

CAUSE_HEADS = ("held back by", "column family", "cause", "times", "in all, ms", "longest, ms", "first at, s")
# Sizes of groups that are named one by one.
_SIZES = 6
# Stages in the first sentence.
_NAMED = 3


@dataclass(frozen=True)
class WriteGroup:
    """Writes that share a column: their number, and their mean in ns."""

    label: str
    roles: list[WriteRole]

    @property
    def count(self) -> int:
        return sum(role.count for role in self.roles)

    @property
    def sum_ns(self) -> int:
        return sum(role.sum_ns for role in self.roles)


@dataclass(frozen=True)
class WriteRow:
    """A stage, or with `within_queue` a part of the wait in the queue.

    ns:    a write, for each of the groups; of those that were not in it 0
    share: of all writes' time, 0 to 1; count: writes that were in it; most_ns: the longest
    """

    name: str
    label: str
    about: str
    where: str
    within_queue: bool
    ns: list[float]
    share: float
    count: int
    most_ns: int


def write_groups(ladder: WriteLadder) -> list[WriteGroup]:
    """Leaders and followers, where there are both, and all writes."""
    groups = [WriteGroup("leaders", ladder.of(["leader"])), WriteGroup("followers", ladder.of(FOLLOWERS))]
    found = [group for group in groups if group.count]
    whole = WriteGroup("all", [role for role in ladder.roles if role.count])
    return [*(found if len(found) > 1 else []), whole]


def write_rows(groups: Sequence[WriteGroup]) -> list[WriteRow]:
    """The stages that any write was in, in order; below the queue, its parts. The last group is all writes."""
    rows = [_row(name, groups, False) for name in WRITE_STAGES]
    parts = [_row(name, groups, True) for name in (*WRITE_STAGES, *WAITS)]
    placed = []
    for row in rows:
        if row.count:
            placed.append(row)
            if row.name == QUEUE:
                placed += [part for part in parts if part.count]
    return placed


def _row(name: str, groups: Sequence[WriteGroup], within: bool) -> WriteRow:
    stage = WRITE_STAGES.get(name) or WAITS[name]
    sums = [stage_sum(group.roles, name, within) for group in groups]
    label = f"leader: {stage.label}" if within and name in WRITE_STAGES else stage.label
    return WriteRow(
        name, label, stage.about, stage.where, within,
        [one.sum_ns / group.count if group.count else 0.0 for one, group in zip(sums, groups, strict=True)],
        sums[-1].sum_ns / groups[-1].sum_ns if groups[-1].sum_ns else 0.0, sums[-1].count, sums[-1].most_ns,
    )  # fmt: skip


def first_sentence(ladder: WriteLadder) -> str:
    """How long a write takes, and the stages that most of it is: its own, and its leaders' while it waits for them."""
    roles = [role for role in ladder.roles if role.count]
    sums = {
        name: stage_sum(roles, name).sum_ns * (name != QUEUE) + stage_sum(roles, name, waits=True).sum_ns
        for name in (*WRITE_STAGES, *WAITS)
    }
    largest = sorted(sums, key=lambda name: -sums[name])[:_NAMED]
    label = {name: stage.label for name, stage in (*WRITE_STAGES.items(), *WAITS.items())}
    told = [f"{label[name]} {100 * sums[name] / ladder.total_ns:.1f} %" for name in largest if sums[name]]
    mean = ladder.total_ns / ladder.finished / 1e3
    return f"a write takes {mean:,.1f} us on average: {', '.join(told)}"


def group_words(ladder: WriteLadder) -> str:
    """How large groups were; "" where that was not seen."""
    known = sum(groups for _, groups in ladder.group_sizes)
    if not known:
        return f"{ladder.grouped / ladder.groups:.2f} writes a group on average" if ladder.groups else ""
    first = [(size, groups) for size, groups in ladder.group_sizes if size <= _SIZES]
    told = [f"{size}: {100 * groups / known:.1f} %" for size, groups in first]
    rest = known - sum(groups for _, groups in first)
    if rest:
        told.append(f"more: {100 * rest / known:.1f} %")
    return f"{ladder.grouped / known:.2f} writes a group on average, n {known:,} ({', '.join(told)})"


def stall_words(ladder: WriteLadder) -> list[str]:
    """Writes that the engine held back, a line for each way; leaders alone are, the others wait in the queue."""
    told = []
    for name, words in (("delay", "delayed"), ("stop", "stopped")):
        stage = stage_sum(ladder.roles, name)
        if stage.count:
            plural = "leader was" if stage.count == 1 else "leaders were"
            mean, most = stage.sum_ns / stage.count / 1e6, stage.most_ns / 1e6
            told.append(f"{stage.count:,} {plural} {words}: {mean:.2f} ms on average, at most {most:.2f} ms")
    return told


def cause_cells(cause: StallCause) -> list[str]:
    """A row below `CAUSE_HEADS`."""
    how = "stop" if cause.stopped else "delay"
    lengths = [f"{1e3 * seconds:,.1f}" for seconds in (cause.seconds, cause.longest)]
    return [how, cause.column_family, cause.cause, f"{cause.times:,}", *lengths, f"{cause.first:.2f}"]
