"""What the observers beside perf left in a run, as a page shows it: each part is there or it is not."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from ioflame.ladder import Ladder
from ioflame.latency import IoLatency
from ioflame.offcpu import OffCpu, OffStack, RunQueue, WallClock
from ioflame.pmp import Locks, Pmp
from viz.frames import Stack, printable

__all__ = ("IDLE", "Observed", "by_state")

IDLE = "idle"


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


def by_state(stacks: Iterable[OffStack], idle: Container[int]) -> list[Stack]:
    """A tower for each state: the state is root and category. What the threads of `idle` wait for is a tower apart."""
    found = []
    for stack in stacks:
        state = IDLE if stack.tid in idle else stack.state
        frames = tuple(map(printable, (state, stack.comm, *stack.frames)))
        thread = printable(f"{stack.comm}/{stack.tid}")
        found.append(Stack(frames, stack.ns, stack.count, state, 0, thread=thread))
    return found
