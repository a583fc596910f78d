"""Windows one after the other, each with the counters' deltas at its exact edges and second by second within."""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from collectors.counters import Snapshot, delta
from ground.results.record import Window
from ground.system.observer import Observer, attached
from ground.text.progress import Reporter
from ground.text.titles import title_of

SLICE_NS = 1_000_000_000


@dataclass
class Edge:
    """A window: its kind, the counters at both ends, how it ended, and its round where it is a turn (0: it is none)."""

    kind: str
    first: Snapshot
    last: Snapshot
    note: str = ""
    round: int = 0


class Windows(abc.ABC):
    """A workload watched window by window; a subclass says how its counters are read, and how long it runs."""

    # Whether plain windows begin and end at such moments, too.
    _plain_at_counts = False

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._slice_ns = SLICE_NS
        self._edges: list[Edge] = []
        self._slices: list[Edge] = []

    @abc.abstractmethod
    def _step(self, at_most: float) -> bool:
        """Waits for a moment of at most so many seconds; False where what is watched has ended, and the window has."""

    @abc.abstractmethod
    def _snapshot(self) -> Snapshot:
        """The counters now."""

    @abc.abstractmethod
    def _finished_at(self, moment_ns: int) -> float | None:
        """Queries finished at that moment (CLOCK_MONOTONIC); None where that is not known."""

    @abc.abstractmethod
    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:
        """What the threads do, by tid; empty where they are not told apart."""

    @property
    def _count_every_ns(self) -> int:
        """Between moments at which the count of queries is known; 0: it is known at any."""
        return 0

    def _off_at(self, moment_ns: int) -> float:  # noqa: ARG002
        """Standard deviation of the queries finished at that moment."""
        return 0.0

    def _await_count(self) -> None:  # noqa: B027
        """Waits for a moment at which the count of queries is known, where there are such moments."""

    def plain(self, seconds: float, what: str = "baseline window: nothing attached") -> None:
        """A window with nothing attached. what: said of it while it runs."""
        if self._plain_at_counts:
            self._await_count()
        with self._reporter.stage(what, seconds, "plain"):
            self._window("plain", seconds, at_counts=self._plain_at_counts)

    def begin_turns(self) -> None:
        """Turns begin and end at moments at which the count of queries is known; the first of them waits for one."""
        self._await_count()

    def plain_turn(self, seconds: float, number: int) -> None:
        """A turn with nothing attached, in a round. Its neighbours have ended and begin at a count, as it does."""
        self._window("plain", seconds, number=number)

    def turn(self, observer: Observer, seconds: float, number: int) -> None:
        """A turn of an observer that is attached already: it counts from here to the next count after `seconds`.

        What it takes to open and to close is in no turn: edges are taken within.
        """
        observer.open()
        self._window(observer.kind, seconds, number=number)
        observer.close()

    def observed(self, observer: Observer, seconds: float) -> None:
        """A window with an observer attached; what the observer raises reaches the caller once it is detached.

        What watches changes how fast queries are: it is attached, opened, closed and gone when their count is known, or
        queries of the faster side of an edge would be taken for those of the slower. So it lasts up to half a second
        more or less than `seconds`.
        """
        reporter = self._reporter
        if not self._plain_at_counts:  # else the window before has ended at one
            self._await_count()
        with (
            reporter.stage(f"{title_of(observer.kind)} window: {observer.what}", seconds, observer.kind),
            attached(observer, reporter),
        ):
            with reporter.waits_for(f"{observer.kind} to begin"):
                self._await_count()
                observer.open()
            self._window(observer.kind, seconds)
            with reporter.waits_for(f"{observer.kind} to stop counting"):
                observer.close()
        if not self._plain_at_counts:
            self._await_count()

    def _window(self, kind: str, seconds: float, number: int = 0, *, at_counts: bool = True) -> None:
        """at_counts: it ends with a count, and so up to half the time between two sooner or later"""
        first = slice_first = self._snapshot()
        end = first.at_ns + int(seconds * 1e9)
        count_every_ns = self._count_every_ns if at_counts else 0
        until = end - count_every_ns // 2
        while (left := until - time.monotonic_ns()) > 0 and self._step(left / 1e9):
            if (
                time.monotonic_ns() - slice_first.at_ns >= self._slice_ns
                and end - time.monotonic_ns() >= self._slice_ns // 2
            ):
                now = self._snapshot()
                self._slices.append(Edge(kind, slice_first, now, round=number))
                slice_first = now
        if count_every_ns:
            self._await_count()
        last = self._snapshot()
        self._slices.append(Edge(kind, slice_first, last, round=number))
        self._edges.append(Edge(kind, first, last, round=number))

    def windows(self) -> list[Window]:
        """The windows so far, with their deltas; `queries` is None where their count does not cover an edge."""
        return [self._between(edge) for edge in self._edges]

    def series(self) -> list[Window]:
        """The plain and observed windows second by second: the last slice of a window is up to 2 s long."""
        return [self._between(edge) for edge in self._slices]

    def _between(self, edge: Edge) -> Window:
        first, last = edge.first, edge.last
        begun, ended = self._finished_at(first.at_ns), self._finished_at(last.at_ns)
        # A count of which another one is taken off may fall behind itself by a few.
        queries = max(ended - begun, 0.0) if begun is not None and ended is not None else None
        counters = delta(first, last, queries, self._roles_in(last))
        if queries is not None:
            counters.queries_sd = math.hypot(self._off_at(first.at_ns), self._off_at(last.at_ns))
        return Window(edge.kind, first.at_ns, last.at_ns, counters, edge.note, round=edge.round)

    def threads_by_role(self) -> dict[str, list[int]]:
        """The tids of each role at the last edge; empty where roles were not asked for."""
        found: dict[str, list[int]] = {}
        for tid, role in self._roles_in(self._edges[-1].last).items() if self._edges else ():
            found.setdefault(role, []).append(tid)
        return found
