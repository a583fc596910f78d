"""`frames.json`: every frame of two sides, as `stackfold diff --runs` compares them. Costs are CPU us per query.

Columns: the value of node `i` is at index `i` of each column of `nodes`; depth-first, the root (the whole) first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ground.errors import MeasurementError
from ground.system.atomic_files import read_json

__all__ = (
    "FrameDifferences",
    "FrameFigure",
    "FrameRule",
    "FrameSide",
    "FunctionDifference",
    "Level",
    "Line",
    "Match",
    "Moved",
    "NodeColumns",
    "Totals",
    "read_frame_differences",
)


@dataclass(frozen=True)
class FrameSide:
    """What one side was made of; queries and samples are sums over its profiles."""

    name: str
    event: str | None
    unit: str
    sessions: int
    profiles: int
    queries: float
    samples: int


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

    alpha: float
    least_samples: int
    node_tests: int
    function_tests: int
    smallest_node: float | None
    smallest_function: float | None
    session_effect: float
    session_effect_assumed: bool
    carries: float
    cancels: float
    by: Literal["sessions", "samples", "share"] = "sessions"
    least_share: float | None = None


@dataclass(frozen=True)
class NodeColumns:
    """name, object: places in `names` and `objects`; half: of the simultaneous interval of after - before."""

    depth: list[int]
    name: list[int]
    object: list[int]
    before: list[float]
    after: list[float]
    half: list[float]
    samples_before: list[int]
    samples_after: list[int]
    different: list[int]


@dataclass(frozen=True)
class FrameFigure:
    """Cost on both sides, the difference with its simultaneous interval, samples of either side."""

    before: float
    after: float
    delta: float
    low: float
    high: float
    samples: list[int]
    different: bool


@dataclass(frozen=True)
class FunctionDifference:
    """A function wherever it is called; `total`: with all it calls, once a stack; `own`: itself."""

    name: int
    total: FrameFigure
    own: FrameFigure


@dataclass(frozen=True)
class Line(FrameFigure):
    """A frame that carries a difference: `delta` of `of`, which is the whole's. path: the frames above, root first.

    seen: `both`, `vanished` or `new`
    """

    node: int
    name: str
    path: list[str]
    seen: str
    of: float


@dataclass(frozen=True)
class Moved:
    """Gains and losses below one frame that cancel."""

    within: str
    node: int
    losing: list[str]
    gaining: list[str]
    lost: float
    gained: float
    sum: float


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
    node: int
    object: str
    why: str
    before: float
    after: float


@dataclass(frozen=True)
class Totals:
    """Cost of the topmost frames that one side alone has, and how many nodes are different."""

    vanished: float
    new: float
    different_nodes: int
    vanished_nodes: int
    new_nodes: int


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
    more_lines: int
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
    return found
