"""A release over the hosts of a fleet: what differs within strata, and what a changed mix of hosts adds."""

from __future__ import annotations

from dataclasses import dataclass

from ground.results.interval import Interval
from ground.results.ranges import Amount, Count, Share, Signed


@dataclass(frozen=True)
class FleetChange:
    """base, arm: the mean over the hosts of each version; arm - base = within + mix; p: two-sided, of within"""

    base: Amount
    arm: Amount
    within: Interval
    mix: Interval
    p: Share


@dataclass(frozen=True)
class Away:
    """A difference within strata that was seen on some days and is no more.

    first, last: the days on which it was seen, YYYY-MM-DD; days: from the one to the other, both counted
    change: its mean over those days; since: over the days after them
    """

    first: str
    last: str
    days: Count
    change: Interval
    since: Interval


@dataclass(frozen=True)
class FleetPart:
    """kind: total, category or function; verdict: regressed, improved, moved, temporary, mix or "" for nothing seen

    cores: of the arm's hosts, that the change within strata takes; None where no run knows how many it used
    away: where the verdict is that
    """

    kind: str
    name: str
    change: FleetChange
    verdict: str
    cores: Signed | None
    away: Away | None = None


@dataclass(frozen=True)
class Watch:
    """unit: of every figure; hosts: of base and arm; days: on which both ran; tested: parts that were tested

    parts: the total, every category, and of the functions what was found, the largest change first
    """

    unit: str
    hosts: tuple[Count, Count]
    strata: Count
    days: Count
    tested: Count
    parts: list[FleetPart]
