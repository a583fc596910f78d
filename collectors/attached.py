"""The windows of a target that others run, and that keeps running when we detach."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from collectors.counters import Snapshot
from collectors.counts import Counted
from collectors.target_counters import TargetProbe
from collectors.windows import SLICE_NS, Edge, Windows
from ground.results.record import CUT, Window
from ground.system.own_cpu import own_cpu_seconds
from ground.text.progress import Reporter

_POLL_SECONDS = 0.2
_LIMIT_SECONDS = 1.0
# Of the time between two looks at all counters, a look may take so much.
_LOOKING = 1 / 500


# A report by second may take so long to say what was finished at an edge, on a host whose CPUs are stolen.
_SETTLE_SECONDS = 4.0
# Waiting for a client's next report: how often it is looked for, and how late it may come.
_COUNT_POLL_SECONDS, _LATE_SECONDS = 0.01, 2.0


class AttachedWindows(Windows):
    """ended: whether all of the target has; a window that it ended in is as long as it lived.

    limit: CPU seconds (`own_cpu_seconds`) at which a window ends before its time; None without one
    over_limit: whether the last window ended so
    counts: of queries, by their kind; "" is all kinds together
    rate:  queries a second, where they were counted for a while and not window by window

    Of a client that reports now and then each window begins and ends with a report, and lasts for one at least: between
    two of them nobody knows how fast its queries were.
    """

    _plain_at_counts = True

    def __init__(
        self,
        probe: TargetProbe,
        counts: Mapping[str, Counted],
        reporter: Reporter,
        goes_on: Callable[[], bool] | None = None,
        roles: Mapping[int, str] | None = None,
    ) -> None:
        """goes_on: whether the watched part of its life, one benchmark of several, still runs; asked at each step

        roles: by tid, of the threads whose names do not say what they do
        """
        super().__init__(reporter)
        self._probe = probe
        self._counts = counts
        self._goes_on = goes_on
        self._roles = roles or {}
        self.ended = False
        self.limit: float | None = None
        self.over_limit = False
        self.rate: float | None = None
        self._looked = 0.0
        self._looks: deque[int] = deque(maxlen=3)

    def cpu_by_process(self) -> Mapping[int, int]:
        """Ticks of CPU of each process since it is watched."""
        return self._probe.cpu_by_process()

    def _step(self, at_most: float) -> bool:
        time.sleep(min(_POLL_SECONDS, at_most))
        self.ended = self.ended or not self._probe.target.alive or not (self._goes_on is None or self._goes_on())
        if self.limit is not None and time.monotonic() - self._looked >= _LIMIT_SECONDS:
            self._looked = time.monotonic()
            self.over_limit = own_cpu_seconds() >= self.limit
        return not self.ended and not self.over_limit

    @property
    def _count_every_ns(self) -> int:
        return int(1e9 * max((count.every for count in self._reporting()), default=0.0))

    def _reporting(self) -> list[Counted]:
        return [count for count in self._counts.values() if count.every and not count.failed]

    def _await_count(self) -> None:
        """Until the next report of each; where one is late, for as long as it may be."""
        deadline = time.monotonic() + self._count_every_ns / 1e9 + _LATE_SECONDS
        for count in self._reporting():
            count.ask()
            known = len(count.known.moments)
            while len(count.known.moments) == known and not count.failed and time.monotonic() < deadline:
                if not self._step(_COUNT_POLL_SECONDS):
                    return

    def warm_up(self, seconds: float, note: str) -> None:
        """A stretch before the first window, which counts for nothing. note: why it ends when it does"""
        with self._reporter.stage("warm-up", seconds):
            first = self._snapshot()
            end = first.at_ns + int(seconds * 1e9)
            while (left := end - time.monotonic_ns()) > 0 and self._step(left / 1e9):
                pass
            self._edges.append(Edge("warm-up", first, self._snapshot(), note))

    def settle(self) -> None:
        """For one benchmark of several: waits some seconds until all counts cover the last edge, then cuts what they
        will never cover: what came after the last line of the report of a benchmark that ended."""
        if self._goes_on is None or not self._edges:
            return
        last = self._edges[-1].last.at_ns
        deadline = (last + self._count_every_ns) / 1e9 + _SETTLE_SECONDS
        while not self.ended and self._counts and self._finished_at(last) is None and time.monotonic() < deadline:
            self._step(_POLL_SECONDS)
        if self._counts and not any(count.failed for count in self._counts.values()):
            self._edges = [edge for edge in map(self._as_counted, self._edges) if edge is not None]
            self._slices = [one for one in self._slices if self._finished_at(one.last.at_ns) is not None]

    def _as_counted(self, edge: Edge) -> Edge | None:
        """Up to the last second whose queries are known; None where there is none."""
        if edge.kind == "warm-up" or self._finished_at(edge.last.at_ns) is not None:
            return edge
        begun, ended = edge.first.at_ns, edge.last.at_ns
        within = [one.last for one in self._slices if one.kind == edge.kind and begun <= one.first.at_ns < ended]
        counted = [one for one in within if self._finished_at(one.at_ns) is not None]
        return replace(edge, last=counted[-1], note=f"{edge.note}{CUT}") if counted else None

    def _window(self, kind: str, seconds: float, number: int = 0, *, at_counts: bool = True) -> None:
        self.over_limit = False
        # The count is asked at both edges, so that no moment of the window is outside of its answers.
        for count in self._counts.values():
            count.ask()
        super()._window(kind, seconds, number, at_counts=at_counts)

    def _snapshot(self) -> Snapshot:
        begun = time.monotonic_ns()
        snapshot = self._probe.snapshot()
        for count in self._counts.values():
            count.ask()
        # A target of thousands of threads, or a count that is dear, is looked at less often; not so where a single look
        # was held up by a busy host.
        self._looks.append(time.monotonic_ns() - begun)
        if len(self._looks) == self._looks.maxlen:
            self._slice_ns = max(SLICE_NS, int(min(self._looks) / _LOOKING))
        return snapshot

    def _finished_at(self, moment_ns: int) -> float | None:
        if self.rate is not None:
            return self.rate * moment_ns / 1e9
        finished = [count.at(moment_ns) for count in self._counts.values()]
        known = [one for one in finished if one is not None]
        return sum(known) if known and len(known) == len(finished) else None

    def _off_at(self, moment_ns: int) -> float:
        return 0.0 if self.rate is not None else math.hypot(*(one.off(moment_ns) for one in self._counts.values()))

    def series(self) -> list[Window]:
        """Without queries where one rate is used for all windows: how much it varies is not known."""
        found = super().series()
        for window in found if self.rate is not None else ():
            window.counters.queries = None
        return found

    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:
        return {**snapshot.names(), **{tid: role for tid, role in self._roles.items() if tid in snapshot.tasks}}

    def groups(self) -> dict[str, list[int]]:
        """The tids of each group of threads, all that were seen."""
        found: dict[str, list[int]] = {}
        for name, tids in self._probe.groups().items():
            for tid in tids:
                found.setdefault(self._roles.get(tid, name), []).append(tid)
        return found

    def _between(self, edge: Edge) -> Window:
        window, first, last = super()._between(edge), edge.first, edge.last
        # Whose threads they are, by their names: a thread called "writer" is not a client's role.
        window.counters.groups, window.counters.roles = window.counters.roles, {}
        for operation, count in self._counts.items():
            begun, ended = count.at(first.at_ns), count.at(last.at_ns)
            if operation and begun is not None and ended is not None:
                window.counters.operations[operation] = max(ended - begun, 0.0)
        return window
