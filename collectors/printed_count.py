"""How many queries a client had finished at any moment, by the lines of progress that it prints itself."""

from __future__ import annotations

import math
import re
import threading

from collectors.counts import Count
from collectors.known_counts import KnownCounts
from ground.errors import MeasurementError

# Clients round the seconds that they print to tenths.
_ROUNDED = 0.11


class PrintedCount:
    """Lines that a pattern matches, and what its groups mean:

    rate:    queries a second since the line before
    total:   queries since the beginning
    seconds: since the beginning or since any other moment (1970, midnight), by the client's own clock; used where a
             line came late, as of several at once

    begun_ns: when the client began (CLOCK_MONOTONIC); None before the first line
    failed:   why it counts no more; "" as long as it does
    """

    def __init__(self, what: str, pattern: re.Pattern[str], made_ns: int) -> None:
        """made_ns: CLOCK_MONOTONIC, before the client was started"""
        self.count = Count(what, self._now)
        self.failed = ""
        self.begun_ns: int | None = None
        self._pattern, self._made_ns = pattern, made_ns
        self.known = KnownCounts()
        self._seconds = 0.0
        self._lock = threading.Lock()

    def seen(self, line: str, moment_ns: int) -> None:
        """A line of the client's, and the moment it came; from any thread."""
        found = self._pattern.search(line)
        if found is None or self.failed:
            return
        said = found.groupdict()
        numbers = {name: _number(text) for name, text in said.items() if text is not None}
        wrong = next((said[name] for name, value in numbers.items() if not math.isfinite(value)), None)
        with self._lock:
            if wrong is not None:
                self.failed = f"it printed {wrong!r} in {line.strip()[:80]!r}, which is not a number"
            else:
                self._take(numbers, moment_ns)

    def _take(self, numbers: dict[str, float], moment: int) -> None:
        seconds = numbers.get("seconds")
        values = self.known.values
        if not values:
            # Seconds since any other moment would put its beginning before its start.
            self.begun_ns = max(moment - int((seconds or 0.0) * 1e9), self._made_ns)
            self.known.add(moment, numbers.get("total", 0.0))
        else:
            before = values[-1]
            value = numbers["total"] if "total" in numbers else before + self._gained(numbers, moment)
            if value < before:
                self.failed = f"it went down, from {before:,.0f} to {value:,.0f}: it is not a count, or began anew"
                return
            self.known.add(moment, value)
        self._seconds = seconds if seconds is not None else self._seconds

    def _gained(self, numbers: dict[str, float], moment: int) -> float:
        """By a rate since the line before: by our clock, or by the client's where the line came late."""
        passed = (moment - self.known.moments[-1]) / 1e9
        if "seconds" in numbers and abs(numbers["seconds"] - self._seconds - passed) > _ROUNDED:
            passed = max(numbers["seconds"] - self._seconds, 0.0)
        return numbers["rate"] * passed

    def ask(self) -> None:
        """It says so by itself."""

    @property
    def every(self) -> float:
        """By its last two lines; a second before there are two, as most print one."""
        with self._lock:
            last = self.known.moments[-2:]
        return (last[1] - last[0]) / 1e9 if len(last) > 1 else 1.0

    def at(self, moment_ns: int) -> float | None:
        with self._lock:
            return self.known.at(moment_ns)

    def off(self, moment_ns: int) -> float:
        with self._lock:
            return self.known.off(moment_ns)

    def _now(self) -> float:
        with self._lock:
            if not self.known.values:
                raise MeasurementError(f"{self.count.what}: it has printed none yet")
            return self.known.values[-1]


def _number(text: str) -> float:
    """NaN where it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan
