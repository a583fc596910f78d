"""The write path on a page: a bar of an average write by stage for leaders and followers, and the tables behind it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.write_ladder import ROLES, StallCause, WriteLadder
from viz.page.rendering import absent, render, table
from viz.svg.axes import us
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.write_rows import (
    CAUSE_HEADS,
    WriteGroup,
    WriteRow,
    cause_cells,
    first_sentence,
    group_words,
    stall_words,
    write_groups,
    write_rows,
)

_HUES = 16
_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def writes_panel(ladder: WriteLadder, causes: Sequence[StallCause] = ()) -> Markup:
    """Bars and tables; a sentence where no write was followed. causes: of stalls, where the engine's log was read"""
    if not ladder.finished:
        return absent(f"No write was followed from its start to its end in {ladder.seconds:.1f} s.")
    groups = write_groups(ladder)
    rows = write_rows(groups)
    # The wait in the queue is drawn by its parts.
    divided = any(row.within_queue for row in rows)
    drawn = [row for row in rows if not (divided and row.name == "join" and not row.within_queue)]
    hues = [number % _HUES for number in range(len(drawn))]
    bars = [
        {
            "title": f"{_title(group, len(groups))}: {us(group.sum_ns / group.count)} us",
            "words": f"n {group.count:,}",
            "drawn": stacked_bar(
                [BarPart(row.label, "", hue, row.ns[place]) for row, hue in zip(drawn, hues, strict=True)]
            ),
        }
        for place, group in enumerate(groups)
        if len(groups) == 1 or group is not groups[-1]
    ]
    threads = f"{ladder.threads} thread{'s' * (ladder.threads != 1)}"
    counted = (
        f"{ladder.finished:,} writes of {threads} in {ladder.seconds:.1f} s, {ladder.synced:,} with sync, "
        f"{ladder.no_log:,} without log"
    )
    own = "A stage in this sentence is a write's own, or its leader's while it waits"
    notes = [own, *ladder.notes, counted, *filter(None, [group_words(ladder)]), *stall_words(ladder)]
    sentence = first_sentence(ladder)
    entries = [(hue, row.label) for hue, row in zip(hues, drawn, strict=True)]
    panel = render("budget_bars.html", sentence=sentence, notes=notes, bars=bars, hues=entries)
    return panel + _stages(ladder, groups, rows) + _roles(ladder) + _causes(causes)


def _title(group: WriteGroup, groups: int) -> str:
    return "A write" if groups == 1 else f"A write of {group.label}"


def _stages(ladder: WriteLadder, groups: list[WriteGroup], rows: list[WriteRow]) -> Markup:
    cells = [
        [
            ("\u2003" if row.within_queue else "") + row.label, *(us(ns) if ns else "-" for ns in row.ns),
            f"{100 * row.share:.1f}", f"{row.count:,}", us(row.most_ns), row.about,
        ]
        for row in rows
    ]  # fmt: skip
    whole = [us(group.sum_ns / group.count) for group in groups]
    longest = us(max(role.most_ns for role in ladder.roles))
    cells.append(["all", *whole, "100.0", f"{ladder.finished:,}", longest, "the whole write"])
    heads = ["us a write", *(group.label for group in groups), "share, %", "n", "longest", "what it is"]
    legend = (
        "Stages add up to the write; indented rows add up to the queue of writers: what the leaders did while a write "
        f"waited there. All are of watched writes: of each, {us(ladder.probe_ns)} us at least are the probes' own; the "
        "check 'writes cost' says what watching took."
    )
    return table("Where the time of a write goes", heads, cells, "numbers noted", legend)


def _roles(ladder: WriteLadder) -> Markup:
    cells = [
        [
            role.name.replace("_", " "), f"{role.count:,}", us(role.sum_ns / role.count),
            *(us(role.histogram.percentile(percent)) for percent in _PERCENTILES), us(role.most_ns), ROLES[role.name],
        ]
        for role in ladder.of(ROLES)
    ]  # fmt: skip
    heads = ["writes", "n", "mean, us", *(f"p{percent:g}" for percent in _PERCENTILES), "max", "what they did"]
    return table("How long writes took", heads, cells, "numbers noted")


def _causes(causes: Sequence[StallCause]) -> Markup:
    if not causes:
        return Markup()
    legend = (
        "From the log's line until a job ends after which the log does not repeat it. Writers sleep through all of a "
        "stop, and through a part of a delay: the rows stall of the stages have what they waited."
    )
    cells = [cause_cells(cause) for cause in causes]
    return table("Stalls of this window, by the engine's log", list(CAUSE_HEADS), cells, "noted", legend)
