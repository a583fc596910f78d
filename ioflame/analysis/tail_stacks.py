"""Where the queries of a group waited and ran, as folded stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from folding.wait_places import WaitPlace, place_of
from ground.results.query_records import ON_CPU, PARTS, QueryRecord
from ioflame.analysis.tail import Used
from ioflame.analysis.tail_cpu import RUNNING, Undisturbed

# Plain words: a name in brackets means code of an object without names, which comparisons treat as the same.
_RUNS, _RUN_QUEUE = "on-CPU", "run queue"


def folded_time(
    group: Sequence[Used],
    sampled: Sequence[QueryRecord],
    undisturbed: Undisturbed,
    places: Mapping[int, WaitPlace],
    states: Sequence[str],
    least: int,
    most: int | None,
) -> str:
    """Folded text of the queries of `least` ns and more, up to `most` (None: all): a line is `root;...;leaf;what n`,
    n in ns a query of the group, so that two groups can be compared whatever their sizes.

    sampled: records in which samples fell; undisturbed: how long those had been without. The time on the CPU is spread
    over their stacks, and has none where there are none. Time in the run queue has the stack that the thread was
    blocked in; a preempted thread has none.
    """
    sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
    whole = on_cpu = 0.0
    for one in group:
        if not _within(one.record.ns, least, most):
            continue
        whole += one.weight
        on_cpu += one.weight * one.record.parts[ON_CPU]
        for wait in one.record.waits:
            state = states[wait.state]
            frames = place_of(places, wait.place, state).frames if wait.place else ()
            blocked = _RUN_QUEUE if PARTS[wait.part] == "run_queue" else f"waits: {state}"
            for what, ns in ((blocked, wait.woken - wait.left), (_RUN_QUEUE, wait.runs - wait.woken)):
                stack = (*frames, what)
                sums[stack] += one.weight * ns
    ran = _ran([record for record in sampled if _within(undisturbed.ns(record), least, most)], places) or {
        (_RUNS,): 1.0
    }
    samples = sum(ran.values())
    for stack, weight in ran.items():
        sums[stack] += on_cpu * weight / samples
    lines = {";".join(frames): round(ns / whole) for frames, ns in sorted(sums.items()) if whole}
    return "".join(f"{line} {ns}\n" for line, ns in lines.items() if ns)


def _within(ns: int, least: int, most: int | None) -> bool:
    return ns >= least and (most is None or ns <= most)


def _ran(records: Sequence[QueryRecord], places: Mapping[int, WaitPlace]) -> Mapping[tuple[str, ...], float]:
    """Samples by stack with what they are behind it; the kept samples of a query represent all of its samples."""
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for record in records:
        kept = list(record.samples)
        for sample in kept:
            stack = (*place_of(places, sample.place, RUNNING).frames, _RUNS)
            found[stack] += record.sampled / len(kept)
    return found
