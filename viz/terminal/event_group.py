"""The events of a group by category, for a terminal."""

from __future__ import annotations

from ground.results.event_group import EventGroup
from ground.text.columns import fold_line
from viz.event_group import group_legend, group_table
from viz.terminal.columns import aligned


def group_text(group: EventGroup, width: int = 100) -> str:
    legend = fold_line(f"  {group_legend(group)}", width, 2)
    return f"Events of the group, by category\n{aligned(group_table(group), width)}\n{legend}"
