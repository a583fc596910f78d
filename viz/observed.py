"""What the observers beside perf left in a run, as a page shows it: each part is there or it is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ioflame.ladder import Ladder
from ioflame.latency import IoLatency
from ioflame.offcpu import STATES, OffCpu, RunQueue, WallClock
from ioflame.pmp import Locks, Pmp
from viz.frames import Stack

__all__ = ("Observed", "by_state")


@dataclass
class Observed:
    """Results of observers.

    off_stacks: time off the CPU, by state (`by_state`); pmp_stacks: wall clock, with their owner category
    rx_lat_us:  us per query by the engine's own count in the ladder's window; None where it has none
    """

    ladder: Ladder | None = None
    io: IoLatency | None = None
    off: OffCpu | None = None
    queue: RunQueue | None = None
    clock: WallClock | None = None
    pmp: Pmp | None = None
    locks: Locks | None = None
    off_stacks: list[Stack] = field(default_factory=list)
    pmp_stacks: list[Stack] = field(default_factory=list)
    rx_lat_us: float | None = None


def by_state(stacks: Iterable[Stack], counts: Iterable[Stack] = ()) -> list[Stack]:
    """Stacks of `offcpu.folded` as a tower for each state: the state is root and category.

    counts: the same stacks weighed by how often; without them `samples` is not known
    """
    known = {stack.frames: stack.weight for stack in counts}
    found = []
    for stack in stacks:
        waker = stack.frames.index("[woken by]") if "[woken by]" in stack.frames else len(stack.frames)
        place = waker - 1
        state = stack.frames[place][1:-1]
        if state not in STATES:
            found.append(replace(stack, samples=known.get(stack.frames)))
            continue
        frames = (state, *stack.frames[:place], *stack.frames[waker:])
        found.append(replace(stack, frames=frames, samples=known.get(stack.frames), category=state, anchor_depth=0))
    return found
