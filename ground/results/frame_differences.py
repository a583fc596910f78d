"""`frames.json`: every frame of two sides, as `stackfold diff --runs` compares them. Costs are CPU us per query.

Columns: the value of node `i` is at index `i` of each column of `nodes`; depth-first, the root (the whole) first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ground.errors import MeasurementError
from ground.results.ranges import Amount, Count, Ends, Place, Share, Signed
from ground.system.atomic_files import read_json


@dataclass(frozen=True)
class FrameSide:
    """What one side was made of; queries and samples are sums over its profiles."""

    name: str
    event: str | None
    unit: str
    sessions: Count
    profiles: Count
    queries: Amount
    samples: Count


@dataclass(frozen=True)
class FrameRule:
    """By which a frame counts as different: its simultaneous interval leaves zero, with samples enough.

    by:              `sessions`; `samples`: of two profiles, by chance in sampling alone; `share`: of two whose samples
                     are not counted, which have no interval: different by `least_share` of the whole or more

    alpha:           the chance that any frame at all is different where nothing is
    least_samples:   of both sides together
    smallest_node, smallest_function: the smallest difference that would count; None where no frame was seen enough
    session_effect:  what sessions differ by, as a part of the cost (one standard deviation)
    carries:         the part of a difference that a frame below has to carry to be named instead
    cancels:         the part of the larger that a gain and a loss may differ by, to count as moved
    """

    alpha: Share
    least_samples: Count
    node_tests: Count
    function_tests: Count
    smallest_node: Amount | None
    smallest_function: Amount | None
    session_effect: Amount
    session_effect_assumed: bool
    carries: Share
    cancels: Share
    by: Literal["sessions", "samples", "share"] = "sessions"
    least_share: Amount | None = None


@dataclass(frozen=True)
class NodeColumns:
    """name, object: places in `names` and `objects`; half: of the simultaneous interval of after - before."""

    depth: list[Count]
    name: list[Place]
    object: list[Place]
    before: list[Amount]
    after: list[Amount]
    half: list[Amount]
    samples_before: list[Count]
    samples_after: list[Count]
    different: list[Count]


@dataclass(frozen=True)
class FrameFigure(Ends):
    """Cost on both sides, the difference with its simultaneous interval, samples of either side."""

    before: Amount
    after: Amount
    delta: Signed
    low: Signed
    high: Signed
    samples: list[Count]
    different: bool


@dataclass(frozen=True)
class FunctionDifference:
    """A function wherever it is called; `total`: with all it calls, once a stack; `own`: itself."""

    name: Place
    total: FrameFigure
    own: FrameFigure


@dataclass(frozen=True)
class Line(FrameFigure):
    """A frame that carries a difference: `delta` of `of`, which is the whole's. path: the frames above, root first.

    seen: `both`, `vanished` or `new`
    """

    node: Place
    name: str
    path: list[str]
    seen: str
    of: Signed


@dataclass(frozen=True)
class Moved:
    """Gains and losses below one frame that cancel."""

    within: str
    node: Place
    losing: list[str]
    gaining: list[str]
    lost: Signed
    gained: Signed
    sum: Signed


@dataclass(frozen=True)
class Match:
    """Names that were taken for one function, by the rule of that name; a guess is `taken_for_the_same`."""

    before: str
    after: str
    rule: str
    taken_for_the_same: bool


@dataclass(frozen=True)
class Level:
    """Cost of what was taken out below a frame, because only one side can distinguish it; why: in words."""

    below: str
    node: Place
    object: str
    why: str
    before: Amount
    after: Amount


@dataclass(frozen=True)
class Totals:
    """Cost of the topmost frames that one side alone has, and how many nodes are different."""

    vanished: Amount
    new: Amount
    different_nodes: Count
    vanished_nodes: Count
    new_nodes: Count


@dataclass(frozen=True)
class FrameDifferences:
    """The whole file. functions: those that differ first; more_lines: lines of the explanation that were left out"""

    sides: list[FrameSide]
    rule: FrameRule
    names: list[str]
    objects: list[str]
    nodes: NodeColumns
    functions: list[FunctionDifference]
    explanation: list[Line]
    more_lines: Count
    moved: list[Moved]
    matches: list[Match]
    levels: list[Level]
    totals: Totals
    schema: int = 1


def read_frame_differences(path: Path) -> FrameDifferences:
    """MeasurementError where the file is missing or of another form."""
    found = read_json(path, FrameDifferences, "a comparison of frames")
    nodes = found.nodes
    columns: list[Sequence[float]] = [
        nodes.depth,
        nodes.name,
        nodes.object,
        nodes.before,
        nodes.after,
        nodes.half,
        nodes.different,
    ]
    if len({len(column) for column in columns}) != 1 or not nodes.depth:
        raise MeasurementError(f"{path} is inconsistent: the columns of the nodes differ in length")
    lists: tuple[Sequence[Line | Moved | Level], ...] = (found.explanation, found.moved, found.levels)
    below = [one.node for some in lists for one in some]
    named = [*nodes.name, *(one.name for one in found.functions)]
    for places, among in ((below, nodes.name), (named, found.names), (nodes.object, found.objects)):
        if any(not 0 <= place < len(among) for place in places):
            raise MeasurementError(f"{path} is inconsistent: a node, a name or an object is not there")
    return found
