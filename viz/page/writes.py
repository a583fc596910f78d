"""The write path on a page: a bar of an average write by stage for leaders and followers, and its tables."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ground.results.write_ladder import StallCause, WriteLadder
from viz.page.rendering import render, section_markup
from viz.svg.axes import us
from viz.svg.stacked_bar import BarPart, stacked_bar
from viz.tables.writes import first_sentence, write_groups, write_rows, writes_section

_HUES = 16


def writes_panel(ladder: WriteLadder, causes: Sequence[StallCause] = ()) -> Markup:
    """Bars and tables. causes: of stalls, where the engine's log was read"""
    section = writes_section(ladder, causes)
    if not ladder.finished:
        return section_markup(section)
    groups = write_groups(ladder)
    rows = write_rows(groups)
    # The wait in the queue is drawn by its parts.
    divided = any(row.within_queue for row in rows)
    drawn = [row for row in rows if not (divided and row.name == "join" and not row.within_queue)]
    hues = [number % _HUES for number in range(len(drawn))]
    bars = [
        {
            "title": f"A write{f' of {group.label}' * (len(groups) > 1)}: {us(group.sum_ns / group.count)} us",
            "words": f"n {group.count:,}",
            "drawn": stacked_bar(
                [BarPart(row.label, "", hue, row.ns[place]) for row, hue in zip(drawn, hues, strict=True)]
            ),
        }
        for place, group in enumerate(groups)
        if len(groups) == 1 or group is not groups[-1]
    ]
    entries = [(hue, row.label) for hue, row in zip(hues, drawn, strict=True)]
    sentence = first_sentence(ladder)
    bar = render("budget_bars.html", sentence=sentence, notes=[], bars=bars, hues=entries)
    return bar + section_markup([block for block in section if block != sentence])
