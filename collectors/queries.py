"""How many queries the engine had finished at any moment, from the report it writes once a second."""

from __future__ import annotations

import bisect
import time
from pathlib import Path

from ioflame.errors import MeasurementError

__all__ = ("QueryReport",)


class QueryReport:
    """Follows db_bench's `--report_file`: a header, then `second,queries in that second` once a second.

    A line's moment is the file's modification time after the line was written (the kernel's clock, within a tick of 4
    ms), not the moment we read it. `poll` must therefore be called more than once a second.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = 0
        self._total = 0
        self._rates: list[int] = []
        self._moments: list[int] = []  # CLOCK_MONOTONIC ns of lines seen written; the header's is the first
        self._totals: list[int] = []  # queries finished by then
        self._started: int | None = None

    def poll(self) -> None:
        """Takes in what was written since the last call."""
        try:
            written = self.path.stat().st_mtime_ns
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        lines = text[: text.rfind("\n") + 1].splitlines()
        if len(lines) == self._lines:
            return
        for line in lines[max(self._lines, 1) :]:
            queries = self._queries_of(line)
            self._rates.append(queries)
            self._total += queries
        self._lines = len(lines)
        # Of lines that came between two polls only the last one's moment is known.
        self._moments.append(written - (time.time_ns() - time.monotonic_ns()))
        self._totals.append(self._total)
        if len(lines) == 1:
            self._started = self._moments[0]

    def _queries_of(self, line: str) -> int:
        try:
            return int(line.split(",")[1])
        except (IndexError, ValueError):
            raise MeasurementError(
                f"{self.path} has the line {line!r} where `second,queries` was expected",
                means="this db_bench reports in another form, so its queries cannot be counted",
                mend="DB_BENCH=<RocksDB 7.8 to 11>",
            ) from None

    @property
    def begun(self) -> bool:
        """The engine has opened the database and started its queries."""
        return bool(self._moments)

    @property
    def started_ns(self) -> int | None:
        """CLOCK_MONOTONIC of the header, which is second 0; None where it was not seen before the first second was."""
        return self._started

    @property
    def seconds(self) -> float:
        """From the first to the last line that was seen; 0 where there are not two."""
        return (self._moments[-1] - self._moments[0]) / 1e9 if self._moments else 0.0

    @property
    def rates(self) -> list[int]:
        """Queries of each whole second so far, the oldest first."""
        return self._rates

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at `moment_ns` (CLOCK_MONOTONIC), between two reports linearly; None outside of them."""
        if not self._moments or not self._moments[0] <= moment_ns <= self._moments[-1]:
            return None
        right = min(bisect.bisect_right(self._moments, moment_ns), len(self._moments) - 1)
        if right == 0:
            return float(self._totals[0])
        left = right - 1
        span = self._moments[right] - self._moments[left]
        share = (moment_ns - self._moments[left]) / span if span else 1.0
        return self._totals[left] + share * (self._totals[right] - self._totals[left])
