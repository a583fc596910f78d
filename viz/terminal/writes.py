"""The write path as text: stages of leaders, followers and all writes, how long writes took, groups and stalls."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.write_ladder import ROLES, StallCause, WriteLadder
from viz.terminal.columns import aligned, microseconds
from viz.write_rows import (
    CAUSE_HEADS,
    cause_cells,
    first_sentence,
    group_words,
    stall_words,
    write_groups,
    write_rows,
)

_PERCENTILES = (50.0, 99.0, 99.9)


def writes_text(ladder: WriteLadder, causes: Sequence[StallCause] = ()) -> str:
    """The tables, and what was seen of groups and stalls. causes: of the stalls, where the engine's log was read"""
    depth = "all stages" if ladder.full else "few stages"
    threads = f"{ladder.threads} thread{'s' * (ladder.threads != 1)}"
    lines = [f"Writes (us; process {ladder.pid}, {ladder.seconds:.1f} s, {threads}, {depth})", *ladder.notes]
    if not ladder.finished:
        return "\n".join([*lines, "no write was followed from its start to its end"])
    logged = f"{ladder.finished:,} writes, {ladder.synced:,} with sync, {ladder.no_log:,} without log"
    lines += [
        first_sentence(ladder),
        "  (a stage is its own, or its leader's while it waits; all figures are of watched writes: see 'writes cost')",
        logged,
        *filter(None, [group_words(ladder)]),
        *stall_words(ladder),
    ]
    lines += ["", _stages(ladder), "", _roles(ladder)]
    if causes:
        lines += ["", "Stalls of this window, by the engine's log", aligned([CAUSE_HEADS, *map(cause_cells, causes)])]
    return "\n".join(lines)


def _stages(ladder: WriteLadder) -> str:
    groups = write_groups(ladder)
    rows = [["us a write", *(group.label for group in groups), "share", "n", "longest"]]
    for row in write_rows(groups):
        means = [microseconds(ns) if ns else "-" for ns in row.ns]
        share = f"{100 * row.share:.1f} %"
        label = f"  {row.label}" if row.within_queue else row.label
        rows.append([label, *means, share, f"{row.count:,}", microseconds(row.most_ns, 0)])
    means = [microseconds(group.sum_ns / group.count) for group in groups]
    rows.append(["all", *means, "100.0 %", f"{ladder.finished:,}", microseconds(_longest(ladder), 0)])
    return aligned(rows)


def _longest(ladder: WriteLadder) -> int:
    return max(role.most_ns for role in ladder.roles)


def _roles(ladder: WriteLadder) -> str:
    rows = [["writes", "n", "mean", *(f"p{percent:g}" for percent in _PERCENTILES), "max", ""]]
    for role in ladder.of(ROLES):
        percentiles = [microseconds(role.histogram.percentile(percent) or 0.0) for percent in _PERCENTILES]
        mean, most = microseconds(role.sum_ns / role.count), microseconds(role.most_ns)
        name = role.name.replace("_", " ")
        rows.append([name, f"{role.count:,}", mean, *percentiles, most, ROLES[role.name]])
    width = max(len(row[-1]) for row in rows)
    return aligned([[*row[:-1], row[-1].ljust(width)] for row in rows])
