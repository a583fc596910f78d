"""All that a page shows of one run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ground.results.categories import Categories
from ground.results.findings import Finding
from ground.results.frame_differences import FrameDifferences
from ground.results.io_latency import IoLatency
from ground.results.ladder import Ladder
from ground.results.metrics import cpu_profiled
from ground.results.off_cpu import OffCpu, OffStack, RunQueue, WallClock
from ground.results.operations import Operation
from ground.results.pmp import Locks, Pmp
from ground.results.record import RunRecord, Window
from viz.flame.stacks import Stack
from viz.printable import printable

__all__ = ("IDLE", "Observed", "RunView", "by_state")

IDLE = "idle"


@dataclass
class Observed:
    """What the observers beside perf left: each part is there or it is not.

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


@dataclass
class RunView:
    """All that a page shows of one run.

    stacks:   with their owner category, and with threads and objects where known
    leaf_of:  the leaf category of each stack, empty without a leaf view
    further:  the other views of the engine's rules, by name
    operations: the CPU by kind of operation, where the rules tell kinds apart
    rates:    queries of each second, by the engine's report
    series:   the counters second by second
    notes:    what could not be shown, and why
    findings: what the run shows, the dearest first
    observed: what observers beside perf left
    frames:   against those of the base, where there is one and both may be compared
    """

    name: str
    record: RunRecord
    owner: Categories | None = None
    leaf: Categories | None = None
    stacks: list[Stack] = field(default_factory=list)
    leaf_of: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    rates: list[int] = field(default_factory=list)
    series: list[Window] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: Sequence[Finding] = ()
    further: Mapping[str, Categories] = field(default_factory=dict)
    operations: Sequence[Operation] = ()
    observed: Observed = field(default_factory=Observed)
    frames: FrameDifferences | None = None

    @property
    def title(self) -> str:
        record = self.record
        return f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}, {record.build}"

    @property
    def cpu(self) -> tuple[float | None, float | None]:
        """CPU us per query and per storage read that the weights are a part of."""
        return cpu_profiled(self.record.metrics, self.record.profile.mode if self.record.profile else "all")
