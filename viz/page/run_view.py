"""All that a page shows of one run."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from markupsafe import Markup

from ground.results.categories import Categories
from ground.results.findings import Finding
from ground.results.frame_differences import FrameDifferences
from ground.results.jobs import RunJobs
from ground.results.off_cpu import OffStack
from ground.results.record import RunRecord, Window
from viz.flame.stacks import Stack
from viz.printable import printable
from viz.table import Section

_T = TypeVar("_T")

IDLE = "idle"


@dataclass
class Observed:
    """What the instruments beside perf left.

    results:   by file of the run directory, what was read of it; only what is there
    panels:    of the section on waits; graphs: flame graphs beside that of the CPU
    rx_lat_us: us per query by the engine's own count in the ladder's window; None where it has none
    """

    results: Mapping[str, object] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    graphs: list[Graph] = field(default_factory=list)
    rx_lat_us: float | None = None

    def of(self, file: str, kind: type[_T]) -> _T | None:
        """What was read of that file; None where it is not there."""
        found = self.results.get(file)
        assert found is None or isinstance(found, kind)
        return found

    def the(self, file: str, kind: type[_T]) -> _T:
        """As `of`, of a file that is there."""
        found = self.of(file, kind)
        assert found is not None
        return found


@dataclass(frozen=True)
class Panel:
    """A part of the section on waits.

    collector: of a profile, which brings it; place: among the panels
    files:     of which one must be there, for there to be a panel
    of_writes: a run that does not write has nothing for it
    """

    title: str
    collector: str
    place: int
    files: Sequence[str]
    make: Callable[[Observed], Markup]
    of_writes: bool = False


@dataclass(frozen=True)
class Graph:
    """Stacks beside those of the CPU.

    make: what the scripts read of the graph, from the page's title and the CPU's categories with their labels
    """

    key: str
    name: str
    stacks: Sequence[Stack]
    make: Callable[[str, Sequence[tuple[str, str]]], dict[str, Any]]


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

    owner:    the owner view, or the writes view where that one knows more of what ran (`telling_view`)
    stacks:   with their category of it, and with threads and objects where known
    leaf_of:  the leaf category of each stack, empty without a leaf view
    further:  the other views of the engine's rules, by name
    sections: of the parts of the run, by name
    rates:    queries of each second, by the engine's report
    series:   the counters second by second
    notes:    what could not be shown, and why
    findings: what the run shows, the dearest first
    observed: what the instruments beside perf left
    writes:   operations of each second of a writer beside the queries
    jobs:     in the background, as the engine's log has them
    role_parts: what each role that writes does, by the view of writes
    us_per_query: CPU us that the stacks of the profile are a part of; None where it was not measured
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
    sections: Mapping[str, Section] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    writes: list[int] = field(default_factory=list)
    jobs: RunJobs | None = None
    role_parts: Mapping[str, Categories] = field(default_factory=dict)
    us_per_query: float | None = None
    frames: FrameDifferences | None = None

    @property
    def title(self) -> str:
        record = self.record
        return f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}, {record.build}"
