"""How a workload's stacks are recorded: by frame pointers, or by copies of stacks where these leave less incomplete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from collectors.perf import COPIED_BYTES, MOST_COPIED_BYTES, Plan, copied_bytes, with_dwarf
from ground.results.profile import FoldStats

TRIAL_SECONDS = 1.0
# More than this share of the weight without its callers, and what was tried is not good enough.
_LIMIT = 0.10
# By so much must copies be better: they are 36 times as much to write, and what perf loses of that grows with the load.
# A lead of 0.03 in a trial was seen to become nine samples of ten lost in the window.
_LEAD = 0.05
_NAMED = 3


@dataclass(frozen=True)
class _Tried:
    callgraph: str
    stats: FoldStats

    @property
    def incomplete(self) -> float:
        """Share of the weight in stacks that do not reach their thread's start."""
        return self.stats.incomplete_weight / self.stats.weight if self.stats.weight else 0.0

    @property
    def missing(self) -> float:
        """Share of what ran in such stacks, or in samples that perf lost."""
        recorded = self.stats.samples + self.stats.filtered_samples
        kept = recorded / (recorded + self.stats.lost_samples) if recorded else 1.0
        return 1 - kept * (1 - self.incomplete)

    @property
    def too_short(self) -> bool:
        return self.stats.cut_copies.by_size > _LIMIT * self.stats.weight

    def __str__(self) -> str:
        copied = copied_bytes(self.callgraph)
        by = f"DWARF, copies of {copied:,} bytes" if copied else "frame pointers"
        return f"{self.missing:.1%} by {by}"


def choose_call_graph(plan: Plan, trial: Callable[[Plan], FoldStats], is_time: Callable[[], bool]) -> Plan:
    """Frame pointers where a trial shows that they reach the threads' starts. Otherwise whatever reaches them more
    often, they or copied stacks, which have to be better by 5 points; copies are as long as their own trial shows that
    they must be.

    plan: with frame pointers; trial: records `TRIAL_SECONDS`; is_time: for another one
    """
    tried = [_Tried(plan.callgraph, trial(plan))]
    copied = 0
    while (
        tried[-1].incomplete > _LIMIT
        and (not copied or tried[-1].too_short)
        and copied < MOST_COPIED_BYTES
        and is_time()
    ):
        copied = min(2 * copied, MOST_COPIED_BYTES) if copied else COPIED_BYTES
        callgraph = f"dwarf,{copied}" if copied != COPIED_BYTES else "dwarf"
        tried.append(_Tried(callgraph, trial(with_dwarf(plan, "a trial", callgraph))))
    best = min(tried, key=lambda one: one.missing + (_LEAD if one is not tried[0] else 0.0))
    said = f"incomplete or lost in {_trials(len(tried))}: {', '.join(map(str, tried))}"
    if best.incomplete > _LIMIT and (ends := best.stats.chains_end(_NAMED)):
        said += f"; chains end in {ends}"
    chosen = plan if best is tried[0] else with_dwarf(plan, "", best.callgraph)
    trials = {one.callgraph: one.missing for one in tried}
    return replace(chosen, why=(*plan.why, said), trials=trials)


def _trials(number: int) -> str:
    return f"a trial of {TRIAL_SECONDS:g} s" if number == 1 else f"trials of {TRIAL_SECONDS:g} s"
