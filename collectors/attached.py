"""The windows of a target that runs for others, and goes on when we leave."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from collectors.counters import Snapshot
from collectors.counts import QueryCount
from collectors.target_counters import TargetProbe
from collectors.windows import SLICE_NS, Windows
from ground.results.record import Window
from ground.system.own_cpu import own_cpu_seconds
from ground.text.progress import Reporter

__all__ = ("AttachedWindows",)

_POLL_SECONDS = 0.2
_LIMIT_SECONDS = 1.0
# Of the time between two looks at all counters, a look may take so much.
_LOOKING = 1 / 500


class AttachedWindows(Windows):
    """ended: whether all of the target has; a window that it ended in is as long as it lived.

    limit: CPU seconds (`own_cpu_seconds`) at which a window ends before its time; None without one
    over_limit: whether the last window ended so
    counts: of queries, by their kind; "" is all kinds together
    rate:  queries a second, where they were counted for a while and not window by window
    """

    def __init__(self, probe: TargetProbe, counts: Mapping[str, QueryCount], reporter: Reporter) -> None:
        super().__init__(reporter)
        self._probe = probe
        self._counts = counts
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
        self.ended = self.ended or not self._probe.target.alive
        if self.limit is not None and time.monotonic() - self._looked >= _LIMIT_SECONDS:
            self._looked = time.monotonic()
            self.over_limit = own_cpu_seconds() >= self.limit
        return not self.ended and not self.over_limit

    def _window(self, kind: str, seconds: float) -> None:
        self.over_limit = False
        # The count is asked at both edges, so that no moment of the window is outside of its answers.
        for count in self._counts.values():
            count.ask()
        super()._window(kind, seconds)

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

    def series(self) -> list[Window]:
        """Without queries where one rate stands for all windows: how much it varies is not known."""
        found = super().series()
        for window in found if self.rate is not None else ():
            window.counters.queries = None
        return found

    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:
        return snapshot.names()

    def _between(self, kind: str, first: Snapshot, last: Snapshot, note: str = "") -> Window:
        window = super()._between(kind, first, last, note)
        # Whose threads they are, by their names: a thread called "writer" is not a client's role.
        window.counters.groups, window.counters.roles = window.counters.roles, {}
        for operation, count in self._counts.items():
            begun, ended = count.at(first.at_ns), count.at(last.at_ns)
            if operation and begun is not None and ended is not None:
                window.counters.operations[operation] = ended - begun
        return window
