"""What may be compared between runs that were not measured alike: another event, another host, another ioflame.

what differs                         may be compared
event, unit, scope, call graphs      figures of the client and of /proc, and us per query of owner categories (share of
                                     the profile x CPU by the scheduler), headed "two instruments"; no leaf, no frame
host (its id, CPU or kernel)         figures and owner categories, host by host; no frame: one function is another on
                                     another CPU or kernel
version of ioflame                   everything, once both are folded by one version: `ioflame analyse` where perf.data
                                     is kept; no leaf and no frame otherwise

Differences that bar any comparison (workload, engine, threads, settings) are listed by `what_differs.barriers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ground.results.differences import Decision, Outcome
from ground.results.metrics import COMPARED
from ground.results.record import RunRecord
from ground.results.verdicts import Apart, Comparability, ComparedRuns
from ioflame.analysis.compare.verdict import Costs, VerdictRule, among_arms, among_figures, decide, unpaired
from ioflame.analysis.what_differs import barriers, differences

_HOST = ("host_id", "cpu", "kernel")


def comparability(records: Sequence[RunRecord], folded_alike: bool | None = None) -> Comparability:
    """Of runs whose workload, engine and settings agree.

    folded_alike: whether all profiles were folded by one version; None: as the runs' own versions say
    """
    profiles = [record.profile for record in records if record.profile is not None]
    measured = {
        "event": [one.event for one in profiles],
        "unit": [one.unit for one in profiles],
        "scope": [one.scope for one in profiles],
        "call graphs": [one.callgraph.partition(",")[0] for one in profiles],
    }
    told = tuple(_apart(name, values) for name, values in measured.items() if len(set(values)) > 1)
    hosts = tuple(
        _apart(name, values)
        for name in _HOST
        if len(set(values := [record.host.get(name, "unknown") for record in records])) > 1
    )
    versions = [record.ioflame for record in records]
    alike = len(set(versions)) == 1 if folded_alike is None else folded_alike
    refold = () if alike else (f"{_apart('ioflame', versions)}; ioflame analyse RUN folds each anew from perf.data",)
    heading = f"two instruments: {'; '.join(told)}" if told else ""
    return Comparability(heading, (*told, *refold), (*told, *hosts, *refold))


def _apart(name: str, values: Sequence[str]) -> str:
    """`event cycles, cpu-clock`"""
    return f"{name} {', '.join(dict.fromkeys(values))}"


def apart(records: Sequence[RunRecord]) -> Apart:
    """How several runs differ, for a page that shows them side by side."""
    return Apart(differences(records), barriers(records), comparability(records))


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
