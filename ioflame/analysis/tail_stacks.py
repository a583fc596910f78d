"""Where the queries of a group waited, as folded stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from folding.wait_places import WaitPlace, place_of
from ioflame.analysis.tail import Used

__all__ = ("folded_waits",)


def folded_waits(
    group: Sequence[Used], places: Mapping[int, WaitPlace], states: Sequence[str], least: int, most: int | None
) -> str:
    """Folded text of the queries of `least` ns and more, up to `most` (None: all): a line is `root;...;leaf;[state] n`,
    n in ns a query of the group, so that two groups can be compared whatever their sizes.

    Time in the run queue has the stack that the thread was blocked in, and the state `[woken]`; a preempted thread has
    none.
    """
    sums: defaultdict[tuple[tuple[str, ...], str], float] = defaultdict(float)
    whole = 0.0
    for one in group:
        if one.record.ns < least or (most is not None and one.record.ns > most):
            continue
        whole += one.weight
        for wait in one.record.waits:
            state = states[wait.state]
            frames = place_of(places, wait.place, state).frames if wait.place else ()
            sums[frames, state] += one.weight * (wait.woken - wait.left)
            sums[frames, state if state == "preempted" else "woken"] += one.weight * (wait.runs - wait.woken)
    lines = {
        ";".join((*frames, f"[{state}]")): round(ns / whole) for (frames, state), ns in sorted(sums.items()) if whole
    }
    return "".join(f"{line} {ns}\n" for line, ns in lines.items() if ns)
