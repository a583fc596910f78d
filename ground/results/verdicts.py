"""`verdict.json`: what a comparison found, every number that is printed of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.differences import Budget, Decision, PositionEffect

__all__ = ("ArmVerdict", "Verdicts")


@dataclass(frozen=True)
class ArmVerdict:
    """An arm against the base. decisions, twin (a second process of the base against it), position: by metric.

    budget: the change in us per query, row by row; None where no profile was taken
    """

    base: str
    arm: str
    decisions: dict[str, Decision]
    twin: dict[str, Decision]
    position: dict[str, PositionEffect]
    budget: Budget | None = None


@dataclass(frozen=True)
class Verdicts:
    """sentence: the last line of the terminal; bars: what bars every verdict; disturbed: blocks that were repeated, and
    those that could not be

    blocks: that count, of all sessions; seed, rule: of the plan; seconds: that all sessions took
    """

    sentence: str
    delta: float
    sessions: int
    blocks: int
    looks: list[int]
    seed: int
    rule: str
    seconds: float
    arms: list[ArmVerdict]
    differing: dict[str, list[str]] = field(default_factory=dict)
    bars: list[str] = field(default_factory=list)
    disturbed: list[str] = field(default_factory=list)
    schema: int = 1
