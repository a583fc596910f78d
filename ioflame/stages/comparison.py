"""From the windows of a comparison's record to the verdicts on every arm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ground.results.comparison import Comparison, ComparisonRun
from ground.results.differences import Outcome, PlanRow, Variances
from ground.results.metrics import BACKGROUND, DECIDING, MODE_METRIC, window_metrics
from ground.results.verdicts import VERDICT, ArmVerdict, Verdicts
from ground.system.atomic_files import write_json
from ioflame.analysis.compare.figures import ArmWindow
from ioflame.analysis.compare.figures import Session as Windows
from ioflame.analysis.compare.own_reads import of_the_process
from ioflame.analysis.compare.planning import plan_table
from ioflame.analysis.compare.verdict import ArmsCompared, Costs, VerdictRule, among_arms, among_figures, compare
from ioflame.analysis.counted_verdicts import against
from ioflame.analysis.time_and_counts import which_to_believe
from ioflame.stages.comparison_accounts import accounts_of, observed_decisions
from ioflame.stages.comparison_budget import budget_of

# Of QPS on a shared disk that is neither quiet nor bad: 6 % a block, 1 % from session to session.
ASSUMED = Variances(0.01, 0.06, 0.06)
# Of a process, its warm-up included.
_START_SECONDS = 15.0


@dataclass(frozen=True)
class Judged:
    """arms: every arm but base and twin, against the base"""

    rule: VerdictRule
    arms: list[ArmsCompared]

    @property
    def decided(self) -> bool:
        """Nothing more is to be measured for any of them."""
        return all(one.decided for one in self.arms)

    def outcomes(self) -> set[Outcome]:
        """Of the figures that decide, over all arms."""
        return {one.decisions[name].outcome for one in self.arms for name in DECIDING if name in one.decisions}


def judge(record: Comparison) -> Judged:
    """Decides every figure of every arm by the plan's rule, from the whole sessions."""
    sessions = windows_of(record)
    rule, costs = rule_of(record), costs_of(record)
    twin = record.twin
    found = [
        compare(
            sessions, record.base.name, arm.name, rule, costs,
            twin=twin.name if twin else None, bars=record.not_comparable,
        )
        for arm in record.arms[1:]
        if not arm.twin_of
    ]  # fmt: skip
    together = among_arms([one.decisions for one in found])
    return Judged(rule, [replace(one, decisions=kept) for one, kept in zip(found, together, strict=True)])


def rule_of(record: Comparison) -> VerdictRule:
    return VerdictRule(record.plan.delta, tuple(record.plan.looks))


def costs_of(record: Comparison) -> Costs:
    """What a session and a block took, by the sessions that are whole; by the plan before there is one."""
    plan = record.plan
    windows = 2 * len(record.arms)
    # Where one process is alive at a time, each window has one of its own.
    started = _START_SECONDS * (plan.schedule == "process")
    block = windows * (plan.window_seconds + plan.dropped_seconds + started)
    whole = record.whole_sessions()
    if not whole:
        starts = 0.0 if started else _START_SECONDS
        return Costs(len(record.arms) * (plan.window_seconds * len(plan.collect) + starts), block)
    took = sum(session.seconds for session in whole) / len(whole)
    made = sum(len(session.blocks) for session in whole) / len(whole)
    return Costs(max(took - made * block, 1.0), block)


def blocks_within(record: Comparison, seconds: float, sessions: int) -> int:
    """Of each of so many sessions, so that all of them are done within the time; below 1 where that is too short."""
    costs = costs_of(record)
    return math.floor((seconds / sessions - costs.session_seconds) / costs.block_seconds)


def windows_of(record: Comparison) -> list[Windows]:
    """Sessions of blocks of windows with their figures; a block in which the client told no queries has none."""
    threads = {arm.name: arm.threads for arm in record.arms}
    return [
        [
            [ArmWindow(w.arm, window_metrics([of_the_process(w.window)], threads[w.arm])) for w in block.windows]
            for block in session.counted()
        ]
        for session in record.whole_sessions()
    ]


@dataclass(frozen=True)
class PlannedComparison:
    """What it takes to see some differences in a figure. seen: the variances are this host's, not assumed ones."""

    metric: str
    variances: Variances
    seen: bool
    rows: list[PlanRow]


def plans_of(record: Comparison) -> list[PlannedComparison]:
    """By the variances of the sessions that are whole, of the twin where there is one; by assumed ones before."""
    costs, step = costs_of(record), sum(not arm.twin_of for arm in record.arms)
    found = judge(record).arms if record.whole_sessions() else []
    seen = {
        name: decision.difference.variances
        for one in found
        for name, decision in (one.twin or one.decisions).items()
        if name in DECIDING and decision.difference is not None
    }
    variances = seen or dict.fromkeys(DECIDING[:1], ASSUMED)
    return [
        PlannedComparison(name, one, bool(seen), plan_table(one, costs, block_step=step))
        for name, one in variances.items()
    ]


def verdicts_of(going: ComparisonRun) -> Verdicts:
    """Everything that is said of a comparison; also written to its `verdict.json`."""
    record = going.record
    judged = judge(record)
    whole = record.whole_sessions()
    found = Verdicts(
        sentence=_sentence(record, judged),
        delta=record.plan.delta,
        sessions=len(whole),
        blocks=sum(1 for session in whole for _ in session.counted()),
        looks=record.plan.looks,
        seed=record.plan.seed,
        rule=record.plan.rule,
        seconds=sum(session.seconds for session in record.sessions),
        arms=[_arm_verdict(going, judged.rule, one) for one in judged.arms],
        differing=record.differing,
        bars=record.not_comparable,
        disturbed=_disturbed(record),
        counted=_counted(going, judged),
    )
    write_json(going.directory / VERDICT, found)
    return found


def _arm_verdict(going: ComparisonRun, rule: VerdictRule, one: ArmsCompared) -> ArmVerdict:
    observed = observed_decisions(going, one.arm, rule, costs_of(going.record))
    return ArmVerdict(
        base=one.base,
        arm=one.arm,
        decisions=among_figures({**one.decisions, **observed}) if observed else dict(one.decisions),
        twin=dict(one.twin),
        position=dict(one.position),
        budget=budget_of(going, one.arm),
        accounts=accounts_of(going, one.arm),
    )


def _sentence(record: Comparison, judged: Judged) -> str:
    """The verdict on every arm, in a line."""
    if record.not_comparable:
        return f"not comparable ({'; '.join(record.not_comparable)})"
    parts = []
    for one in judged.arms:
        told = [
            decision.sentence
            for name, decision in one.decisions.items()
            if name in DECIDING or (name == BACKGROUND and decision.outcome in (Outcome.REGRESSED, Outcome.IMPROVED))
        ]
        parts.append(f"{one.arm} against {one.base}: {'; '.join(told) or 'undecided (nothing was measured)'}")
    return " | ".join(parts)


def _counted(going: ComparisonRun, judged: Judged) -> list[str]:
    """Nothing where none was counted beside it."""
    beside = going.count()
    if beside is None:
        return []
    told = []
    for one in judged.arms:
        # Counts hold no instruction of the kernel.
        time = one.decisions.get(MODE_METRIC["user"])
        for name, of in beside.operations.items():
            count = against(of.arms[one.base], of.arms[one.arm])
            told.append(f"{one.arm}, {name}: {which_to_believe(time, count)}")
    return told


def _disturbed(record: Comparison) -> list[str]:
    """Disturbed blocks: those that were repeated, and those kept because the repeat limit was reached."""
    dropped = [block.disturbed for session in record.sessions for block in session.blocks if block.dropped]
    kept = [block.disturbed for one in record.whole_sessions() for block in one.counted() if block.disturbed]
    return [f"repeated: {words}" for words in dropped] + [f"kept, repeat limit reached: {words}" for words in kept]
