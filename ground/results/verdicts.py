"""`verdict.json`: what a comparison found, every number that is printed of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.differences import AccountChange, Budget, Decision, PositionEffect
from ground.results.metrics import DECIDING
from ground.results.ranges import Amount, Count, Share

VERDICT = "verdict.json"


@dataclass(frozen=True)
class ArmVerdict:
    """An arm against the base. decisions, twin (a second process of the base against it), position: by metric.

    budget: the change in us per query, row by row; None where no profile was taken
    accounts: what else its observers' windows tell, row by row
    """

    base: str
    arm: str
    decisions: dict[str, Decision]
    twin: dict[str, Decision]
    position: dict[str, PositionEffect]
    budget: Budget | None = None
    accounts: list[AccountChange] = field(default_factory=list)


@dataclass(frozen=True)
class Verdicts:
    """sentence: the last line of the terminal; bars: what bars every verdict; disturbed: blocks that were repeated, and
    those that could not be

    blocks: that count, of all sessions; seed, rule: of the plan; seconds: that all sessions took
    counted: what the counts beside it say, and which to believe, a sentence for each arm and operation
    """

    sentence: str
    delta: Share
    sessions: Count
    blocks: Count
    looks: list[Count]
    seed: Count
    rule: str
    seconds: Amount
    arms: list[ArmVerdict]
    differing: dict[str, list[str]] = field(default_factory=dict)
    bars: list[str] = field(default_factory=list)
    disturbed: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    schema: int = 1


@dataclass(frozen=True)
class ComparedRuns:
    """arms: the runs of each, by position; alike in everything that a comparison may not differ in, and in the build.

    heading: what the profiles were measured with, where that differs: the client's figures can be compared all the same
    decisions: of each arm but the first, by metric; bars: why there is no verdict
    """

    arms: list[list[int]]
    differing: list[tuple[str, list[str]]]
    heading: str
    bars: list[str]
    decisions: list[dict[str, Decision]]

    @property
    def sentence(self) -> str:
        if len(self.arms) == 1:
            return "not comparable (the runs are of one arm: the same artifact and the same settings)"
        if self.bars:
            return f"not comparable ({'; '.join(self.bars)})"
        return " | ".join(
            f"arm {number} against arm 1: " + "; ".join(found[name].sentence for name in DECIDING if name in found)
            for number, found in enumerate(self.decisions, 2)
        )


@dataclass(frozen=True)
class Comparability:
    """heading: over tables of owner categories, "" where one instrument measured all; leaf, frames: why leaf categories
    and frames are not compared, empty where they are
    """

    heading: str = ""
    leaf: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()


@dataclass(frozen=True)
class Apart:
    """Of runs side by side.

    differing: what is not the same, and its value in each run; barriers: what bars a comparison
    """

    differing: list[tuple[str, list[str]]]
    barriers: list[str]
    comparability: Comparability
