"""Which window comes next in a command that ends by itself, and how long it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ioflame.instruments import INSTRUMENTS

PLAIN = "plain"
# The shortest window that is worth having.
LEAST_SECONDS = 1.0
# To start and to end what watches in a window, beside the window, where nobody else wants the CPUs.
_OPENING_SECONDS = 1.5
# However busy a host is: a window that is cut short is better than none.
_MOST_WAITING = 3.0
# A report by second ends up to a second before its benchmark, and we see it up to a second late.
END_SECONDS = 2.5
# Of the whole time, and its bounds in s.
_WARM_UP, _LEAST_WARM_UP, _MOST_WARM_UP = 0.1, 1.0, 30.0


def warm_up_seconds(whole: float) -> float:
    """For a benchmark that takes so long."""
    return min(max(_WARM_UP * whole, _LEAST_WARM_UP), _MOST_WARM_UP)


@dataclass
class WindowPlan:
    """Windows that alternate: plain, observed, plain ...; what does not fit any more is left out, the last first.

    collect:  what watches; total: length of all windows, s
    every:    s between two reports of the client, where these count its queries: no window is shorter
    left_out: what had no window
    """

    collect: Sequence[str]
    total: float
    every: float = 0.0
    left_out: list[str] = field(default_factory=list)
    _pending: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._pending = [PLAIN, *(kind for name in self.collect for kind in (name, PLAIN))]

    def next(self, available: float, waiting: float = 1.0) -> tuple[str, float] | None:
        """Kind and length of the next window; None where there is none, or no time for one.

        available: seconds until the end, by what is known of it now; infinite where nothing is
        waiting:   threads that want to run, for each CPU: what watches takes so much longer to start and to end
        """
        least = max(LEAST_SECONDS, self.every)
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
        self.left_out += [kind for kind in self._pending if kind != PLAIN]
        self._pending.clear()
        return None

    @property
    def _opening(self) -> float:
        """What watches waits for a report before its window and after it."""
        return _OPENING_SECONDS * max(self.every, 1.0)

    def _take(self, seconds: float) -> tuple[str, float]:
        self.total -= seconds
        return self._pending.pop(0), seconds

    def stop(self) -> None:
        """What was watched has ended: all that is left has no window."""
        self.left_out += [kind for kind in self._pending if kind != PLAIN]
        self._pending.clear()

    def _drop_last(self) -> None:
        place = max(place for place, kind in enumerate(self._pending) if kind != PLAIN)
        self.left_out.insert(0, self._pending[place])
        # The plain window behind it belongs to it.
        del self._pending[place : place + 2]


def _share(kind: str) -> int:
    return 1 if kind == PLAIN else INSTRUMENTS[kind].time_share
