"""Runs that were made before, side by side: what differs, every figure, and what can be said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ground.results.differences import Decision, Outcome
from ground.results.record import RunRecord
from ioflame.analysis.compare.figures import METRICS
from ioflame.analysis.compare.instruments import comparability
from ioflame.analysis.compare.verdict import Costs, Rule, among_arms, among_figures, decide, unpaired
from ioflame.analysis.what_differs import barriers, differences

__all__ = ("ComparedRuns", "compare_runs")


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
            f"arm {number} against arm 1: "
            + "; ".join(f"{name} {found[name].verdict}" for name in ("qps", "cpuPer") if name in found)
            for number, found in enumerate(self.decisions, 2)
        )


def compare_runs(records: Sequence[RunRecord], delta: float, factor: str = "") -> ComparedRuns:
    """Runs that are alike in build and settings are repeats of one arm; the first run's arm is the base.

    factor: a setting that is meant to differ
    Runs are compared unpaired, one value a run: with fewer than two a side nothing is said but their figures.
    """
    arms: list[list[int]] = []
    for place, record in enumerate(records):
        same = next((arm for arm in arms if _alike(records[arm[0]], record)), None)
        if same is None:
            arms.append([place])
        else:
            same.append(place)
    rule = Rule(delta, looks=(1,))
    found = differences(records)
    wanted = factor.replace("-", "_")
    bars = [f"{name} differs" for name in barriers(records) if not wanted or not name.lower().rstrip().endswith(wanted)]
    decided = [among_figures(_decided(records, arms[0], arm, rule, bars)) for arm in arms[1:]]
    return ComparedRuns(arms, found, comparability(records).heading, bars, among_arms(decided))


def _alike(one: RunRecord, other: RunRecord) -> bool:
    rows = {name for name, _ in differences([one, other])}
    return not barriers([one, other]) and not {"engine version", "tool engine_artifact", "tool engine_binary"} & rows


def _decided(
    records: Sequence[RunRecord], base: Sequence[int], arm: Sequence[int], rule: Rule, bars: Sequence[str]
) -> dict[str, Decision]:
    found = {}
    for name in METRICS:
        sides = [[records[place].metrics.get(name, 0.0) for place in side] for side in (base, arm)]
        if not all(value > 0 for side in sides for value in side):
            continue
        decision = decide(name, unpaired(sides[0], sides[1], rule.confidence), rule, Costs(0, 0), bars=bars)
        if decision.outcome is Outcome.UNDECIDED:
            # What one run would have given again is not known from it.
            why = "more runs of each side" if decision.difference else "one run a side: another would tell"
            decision = replace(decision, why=(why,), more_blocks=None, more_minutes=None)
        values = [math.exp(sum(map(math.log, side)) / len(side)) for side in sides]
        found[name] = replace(decision, base_value=values[0], arm_value=values[1])
    return found
