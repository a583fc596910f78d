"""Runs that were made before, side by side: what differs, every figure, and what can be said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ground.results.differences import Decision, Outcome
from ground.results.metrics import COMPARED
from ground.results.record import RunRecord
from ground.results.verdicts import ComparedRuns
from ioflame.analysis.compare.instruments import comparability
from ioflame.analysis.compare.verdict import Costs, VerdictRule, among_arms, among_figures, decide, unpaired
from ioflame.analysis.what_differs import barriers, differences


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
    rule = VerdictRule(delta, looks=(1,))
    found = differences(records)
    wanted = factor.replace("-", "_")
    bars = [f"{name} differs" for name in barriers(records) if not wanted or not name.lower().rstrip().endswith(wanted)]
    decided = [among_figures(_decided(records, arms[0], arm, rule, bars)) for arm in arms[1:]]
    return ComparedRuns(arms, found, comparability(records).heading, bars, among_arms(decided))


def _alike(one: RunRecord, other: RunRecord) -> bool:
    rows = {name for name, _ in differences([one, other])}
    return not barriers([one, other]) and not {"engine version", "tool engine_artifact", "tool engine_binary"} & rows


def _decided(
    records: Sequence[RunRecord], base: Sequence[int], arm: Sequence[int], rule: VerdictRule, bars: Sequence[str]
) -> dict[str, Decision]:
    found = {}
    for name in COMPARED:
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
