"""The write path: stages of leaders, followers and all writes, us a write; how long writes took, groups and stalls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ground.results.write_ladder import (
    FOLLOWERS,
    QUEUE,
    ROLES,
    WAITS,
    WRITE_STAGES,
    StallCause,
    WriteLadder,
    WriteRole,
    stage_sum,
)
from ground.text.tsv import Row
from viz.svg.axes import us
from viz.table import (
    ABOUT,
    COUNT,
    PERCENT,
    US,
    WORDS,
    Column,
    Form,
    Records,
    Section,
    Table,
    fixed,
    histogram_columns,
    tsv_only,
)

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
    within_queue: bool
    ns: list[float]
    share: float
    count: int
    most_ns: int


def writes_section(ladder: WriteLadder, causes: Sequence[StallCause] = ()) -> Section:
    """causes: of the stalls, where the engine's log was read"""
    depth = "all stages" if ladder.full else "few stages"
    threads = f"{ladder.threads} thread{'s' * (ladder.threads != 1)}"
    told = [f"Writes (us; process {ladder.pid}, {ladder.seconds:.1f} s, {threads}, {depth})", *ladder.notes]
    if ladder.finished:
        told += [
            first_sentence(ladder),
            "  (a stage is its own, or its leader's while it waits; all figures are of watched writes: see 'writes "
            "cost')",
            f"{ladder.finished:,} writes, {ladder.synced:,} with sync, {ladder.no_log:,} without log",
            *filter(None, [group_words(ladder)]),
            *stall_words(ladder),
        ]
    else:
        told.append(f"no write was followed from its start to its end in {ladder.seconds:.1f} s")
    return [
        *told,
        _stages(ladder),
        _roles(ladder),
        Records("write_stages", list(_stage_records(ladder))),
        Records("write_groups", [{"size": size, "groups": groups} for size, groups in ladder.group_sizes]),
        _causes(causes),
    ]


def _stages(ladder: WriteLadder) -> Table[WriteRow]:
    groups = write_groups(ladder)
    whole = WriteRow(
        "all", "all", "the whole write", False, [group.sum_ns / (group.count or 1) for group in groups], 1.0,
        ladder.finished, max((role.most_ns for role in ladder.roles), default=0),
    )  # fmt: skip

    def mean(place: int) -> Callable[[WriteRow], float | None]:
        return lambda row: row.ns[place] or None

    columns = [
        Column[WriteRow]("", "us a write", WORDS, lambda row: "\u2003" * row.within_queue + row.label),
        *(Column("", group.label, US, mean(place)) for place, group in enumerate(groups)),
        Column("", "share, %", PERCENT, lambda row: 100 * row.share),
        Column("", "n", COUNT, lambda row: row.count),
        Column("", "longest", US, lambda row: row.most_ns),
        Column("", "what it is", ABOUT, lambda row: row.about, on="page"),
    ]
    more = (
        "Stages add up to the write; indented rows add up to the queue of writers: what the leaders did while a write "
        f"waited there. All are of watched writes: of each, {us(ladder.probe_ns)} us at least are the probes' own; the "
        "check 'writes cost' says what watching took."
    )
    return Table("", "Where the time of a write goes", columns, write_rows(groups), [whole], more=more)


def _roles(ladder: WriteLadder) -> Table[WriteRole]:
    columns = [
        Column[WriteRole]("role", "writes", WORDS, lambda role: role.name),
        *histogram_columns(lambda role: role.histogram),
        tsv_only("own_ns"),
        Column("", "what they did", ABOUT, lambda role: ROLES.get(role.name, "")),
    ]
    return Table("write_roles", "How long writes took, us", columns, ladder.roles, where=lambda role: role.count > 0)


def _stage_records(ladder: WriteLadder) -> Iterator[Row]:
    for role in ladder.roles:
        for part_of, stages in (("write", role.stages), ("join", role.join)):
            for one in stages:
                yield {"role": role.name, "part_of": part_of, "stage": one.name, "count": one.count,
                       "sum_ns": one.sum_ns, "most_ns": one.most_ns, "own_ns": one.own_ns}  # fmt: skip


def _causes(causes: Sequence[StallCause]) -> Table[StallCause]:
    seconds = Form(lambda value: f"{1e3 * value:,.1f}")
    columns = [
        Column[StallCause](
            "stopped",
            "held back by",
            Form(lambda stop: "stop" if stop else "delay", left=True),
            lambda row: row.stopped,
        ),
        Column("cause", "cause", WORDS, lambda row: row.cause),
        Column("column_family", "column family", WORDS, lambda row: row.column_family),
        Column("times", "times", COUNT, lambda row: row.times),
        Column("seconds", "in all, ms", seconds, lambda row: row.seconds),
        Column("longest", "longest, ms", seconds, lambda row: row.longest),
        Column("first", "first at, s", fixed(2), lambda row: row.first),
    ]
    more = (
        "From the log's line until a job ends after which the log does not repeat it. Writers sleep through all of a "
        "stop, and through a part of a delay: the rows stall of the stages have what they waited."
    )
    return Table("write_stalls", "Stalls of this window, by the engine's log", columns, causes, more=more)


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
        name, label, stage.about, within,
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
