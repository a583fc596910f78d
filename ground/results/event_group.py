"""`events.json`: the other events of a recording's group, read with each sample of its leader, by category."""

from __future__ import annotations

import msgspec

from ground.results.ranges import Amount, Count
from ground.system.atomic_files import json_reader


class Member(msgspec.Struct):
    """weight: what it counted in the samples of the process; reported: the same by perf report; None where unread"""

    event: str
    unit: str
    weight: Count
    reported: Count | None = None


class GroupRow(msgspec.Struct):
    """A category. weights: of each member, in their order"""

    name: str
    label: str
    weights: list[Count]


class EventGroup(msgspec.Struct):
    """members: the leader first; rows: in the order of the rules, `other` last; queries: of the window, where counted

    scope: as perf recorded it; of `system` a sample's count is of all that ran on its CPU since the sample before
    """

    view: str
    scope: str
    members: list[Member]
    rows: list[GroupRow]
    queries: Amount | None = None
    schema: int = 1


read_event_group = json_reader(EventGroup, "the events of a group")
