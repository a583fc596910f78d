"""The windows of a run in their order, whatever is watched: plain, observed, plain ..."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ground.results.record import RunRecord
from ground.results.run import Run
from ground.text.titles import title_of
from ioflame.instruments import INSTRUMENTS

PLAIN = "plain"
# The shortest window that is worth having.
_SHORTEST_SECONDS = 1.0
# To start and to end what watches in a window, beside the window, where nobody else wants the CPUs.
_OPENING_SECONDS = 1.5
# However busy a host is: a window that is cut short is better than none.
_MOST_WAITING = 3.0
# A report by second ends up to a second before its benchmark, and we see it up to a second late.
END_SECONDS = 2.5
# Of the whole time, and its bounds in s.
_WARM_UP, _LEAST_WARM_UP, _MOST_WARM_UP = 0.1, 1.0, 30.0


class WindowTarget(Protocol):
    """What a run watches.

    run:   gets what was measured, and why an instrument did not watch
    ended: whether it has; the end of a workload of ours is an error, which its window raises
    """

    run: Run

    @property
    def ended(self) -> bool: ...

    def plain(self, seconds: float) -> None:
        """A window with nothing attached; of infinite length: as long as the target runs."""

    def observe(self, name: str, seconds: float) -> None:
        """A window of this instrument. One that fails beside a target that lives goes into the record."""


def run_windows(target: WindowTarget, collect: Sequence[str], windows: Iterable[tuple[str, float]]) -> None:
    """Until `windows` has no more, or the target has ended.

    windows: kind and seconds of each; the next one is asked for once the one before it has ended
    What an interrupt leaves out is in the record.
    """
    missing, left, upcoming = target.run.record.missing, list(collect), iter(windows)
    missing[:] = [f"baseline and {', '.join(map(title_of, collect))} windows"]
    while not target.ended and (window := next(upcoming, None)) is not None:
        kind, seconds = window
        if kind == PLAIN:
            target.plain(seconds)
            continue
        missing[:] = [f"the {title_of(other)} window" for other in left[left.index(kind) :]]
        target.observe(kind, seconds)
        missing[0] = f"the baseline window after the {title_of(kind)} window"
        left.remove(kind)


def unseen(record: RunRecord, collect: Sequence[str]) -> list[str]:
    """The instruments with neither a window nor a reason why: what was watched had ended, at the latest within it."""
    known = {window.kind for window in record.windows} | {one.kind for one in record.unobserved}
    return [name for name in collect if name not in known]


def warm_up_seconds(whole: float) -> float:
    """For a benchmark that takes so long."""
    return min(max(_WARM_UP * whole, _LEAST_WARM_UP), _MOST_WARM_UP)


@dataclass
class WindowPlan:
    """Windows of what ends by itself; those that do not fit any more are left out, the last first.

    collect: what watches; total: length of all windows, s
    every:   s between two reports of the client, where these count its queries: no window is shorter
    """

    collect: Sequence[str]
    total: float
    every: float = 0.0
    _pending: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._pending = [PLAIN, *(kind for name in self.collect for kind in (name, PLAIN))]

    def next(self, available: float, waiting: float = 1.0) -> tuple[str, float] | None:
        """Kind and length of the next window; None where there is none, or no time for one.

        available: seconds until the end, by what is known of it now; infinite where nothing is
        waiting:   threads that want to run, for each CPU: what watches takes so much longer to start and to end
        """
        least = max(_SHORTEST_SECONDS, self.every)
        while self._pending:
            observers = [kind for kind in self._pending if kind != PLAIN]
            shares = sum(map(_share, self._pending))
            opening = self._opening * min(max(waiting, 1.0), _MOST_WAITING) * len(observers)
            part = min(self.total, available - opening) / shares
            # Shorter ones where so little was asked for, and queries are counted whenever a window begins and ends.
            if part >= least or (part > 0 and self.total / shares < least and not self.every):
                return self._take(part * _share(self._pending[0]))
            plain = self._pending.count(PLAIN) * least
            spare = min(self.total, available - self._opening) - plain
            if len(observers) == 1 and spare >= least:
                # The only one that is left gets what the shortest plain windows beside it leave.
                return self._take(least if self._pending[0] == PLAIN else spare)
            if not observers:
                break
            self._drop_last()
        self._pending.clear()
        return None

    @property
    def _opening(self) -> float:
        """What watches waits for a report before its window and after it."""
        return _OPENING_SECONDS * max(self.every, 1.0)

    def _take(self, seconds: float) -> tuple[str, float]:
        self.total -= seconds
        return self._pending.pop(0), seconds

    def _drop_last(self) -> None:
        last = max(index for index, kind in enumerate(self._pending) if kind != PLAIN)
        # The plain window behind it belongs to it.
        del self._pending[last : last + 2]


def _share(kind: str) -> int:
    return 1 if kind == PLAIN else INSTRUMENTS[kind].time_share
