"""How many queries the engine had finished at any moment, from the report it writes once a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from collectors.known_counts import KnownCounts
from ground.results.roles import Totals, operations_at

# Of the clock that dates files: CLOCK_REALTIME_COARSE, for which Python has no name.
_TICK_SECONDS = time.clock_getres(5)


class QueryReport:
    """Follows the file to which the engine's client adds a line once a second, below a header.

    parse: the engine's reader of such a report, queries of each second
    A line's moment is the file's modification time after the line was written (the kernel's clock, within a tick), not
    the moment we read it. `poll` must therefore be called more than once a second.
    """

    def __init__(self, path: Path, parse: Callable[[str], list[int]]) -> None:
        self.path = path
        self._parse = parse
        self._lines = 0
        self._seen = (0, 0)  # when it was written to, and its size, at the last look
        self._rates: list[int] = []
        self.known = KnownCounts()  # at the lines that were seen written; the header's is the first
        self._started: int | None = None
        self.unseen = 0  # lines that were there at the first look

    def poll(self) -> None:
        """Takes in what was written since the last call."""
        try:
            seen = self.path.stat()
            if (seen.st_mtime_ns, seen.st_size) == self._seen:
                return
            self._seen = (seen.st_mtime_ns, seen.st_size)
            written, text = self._read()
        except FileNotFoundError:
            return
        lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
        # Fewer: somebody has begun the file anew, and it counts something else.
        if len(lines) <= self._lines:
            return
        self._rates += self._parse("".join([lines[0], *lines[max(self._lines, 1) :]]))
        self._lines = len(lines)
        # Of lines that came between two polls only the last one's moment is known.
        moment = written - (time.time_ns() - time.monotonic_ns())
        if not self.begun:
            self.unseen = len(self._rates)
        self.known.add(moment, sum(self._rates))
        if len(lines) == 1:
            self._started = moment

    def _read(self) -> tuple[int, str]:
        """When the file was last written to (Unix ns), and all of it: a line that comes in between would be given the
        moment of the one before it, a second too early."""
        while True:
            written = self.path.stat().st_mtime_ns
            text = self.path.read_text(encoding="utf-8", errors="replace")
            if self.path.stat().st_mtime_ns == written:
                return written, text

    def paused(self, from_ns: int, until_ns: int) -> None:
        """The engine was stopped between these moments (CLOCK_MONOTONIC), and finished no query."""
        self.known.pauses.append((from_ns, until_ns))

    @property
    def begun(self) -> bool:
        """The engine has opened the database and started its queries."""
        return bool(self.known.moments)

    @property
    def started_ns(self) -> int | None:
        """CLOCK_MONOTONIC of the header, which is second 0; None where it was not seen before the first second was."""
        return self._started

    @property
    def seconds(self) -> float:
        """How long the engine has reported: between the moments of its lines, or one second a line, whichever is more.

        On a busy host many lines are there at the first look, and only the last one's moment is known.
        """
        moments = self.known.moments
        between = (moments[-1] - moments[0]) / 1e9 if moments else 0.0
        return max(between, float(len(self._rates)))

    @property
    def rates(self) -> list[int]:
        """Queries of each whole second so far, the oldest first."""
        return self._rates

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at `moment_ns` (CLOCK_MONOTONIC); None outside of what its lines cover."""
        return self.known.at(moment_ns)

    def off(self, moment_ns: int) -> float:
        """Standard deviation of `at`, queries; the moments of its lines are known to a tick."""
        return math.hypot(self.known.off(moment_ns), self.known.rate * _TICK_SECONDS / math.sqrt(12))


class QueryReportWithWriter(QueryReport):
    """A report that counts the operations of a writer among the queries: they are taken off again.

    writer: its operations so far, by its own lines in the client's log, which come about once a second
    """

    def __init__(self, path: Path, parse: Callable[[str], list[int]], writer: Callable[[], Totals]) -> None:
        super().__init__(path, parse)
        self._writer = writer

    def at(self, moment_ns: int) -> float | None:
        every = super().at(moment_ns)
        if every is None or self.started_ns is None:
            return None
        written = operations_at(self._writer(), (moment_ns - self.started_ns) / 1e9)
        return None if written is None else max(every - written, 0.0)


def queries_by_second(rates: Sequence[int], writer: Totals) -> list[int]:
    """Operations of each second without the writer's; seconds that its lines do not cover are left out."""
    found: list[int] = []
    for second, rate in enumerate(rates, start=1):
        before, after = operations_at(writer, second - 1), operations_at(writer, second)
        if before is None or after is None:
            break
        found.append(max(round(rate - (after - before)), 0))
    return found
