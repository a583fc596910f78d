"""The benchmarks of one db_bench, told apart by its report of finished operations, which each of them begins anew."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import dropwhile
from pathlib import Path

from collectors.counts import Count, Counted
from collectors.known_counts import KnownCounts, rate_of_all
from collectors.queries import QueryReport
from ground.errors import MeasurementError
from ground.results.interval import Interval
from ground.system.rewritten_file import RewrittenFile

# A benchmark that reports no operation for so long has none to report.
_IDLE_SECONDS = 10


class ReportPhases:
    """Follows a report from before its first line on, or from when it is found."""

    def __init__(
        self, path: Path, parse: Callable[[str], list[int]], interval: int = 1, writer: int | None = None
    ) -> None:
        """parse: the engine's reader of such a report; interval: seconds between two lines

        writer: a process that may be writing it already; the benchmark that it is at is the first one then
        """
        self.path = path
        self._parse, self._interval = parse, interval
        self._file = RewrittenFile(path, writer)
        self._given = 0

    def next(self) -> ReportedPhase | None:
        """The benchmark that runs now; None where none does, or this one was given before."""
        self._file.look()
        if not self._file.is_open or self._file.begun == self._given:
            return None
        self._given = self._file.begun
        return ReportedPhase(self._file, self._given - 1, QueryReport(self.path, self._parse), self._interval)

    @property
    def ended(self) -> int:
        """How many benchmarks have ended."""
        self._file.look()
        return self._file.closed


class ReportedPhase:
    """One benchmark, as long as it runs; what counts its operations.

    number: of those that came before it
    """

    def __init__(self, file: RewrittenFile, number: int, report: QueryReport, interval: int) -> None:
        self.number = number
        self.report = report
        self.interval = interval
        self.count = Count(f"the report {report.path}", lambda: float(sum(report.rates)))
        self.failed = ""
        self.known: KnownCounts = report.known
        self._file = file
        self._ran_ns = self._ended_ns = 0

    @property
    def every(self) -> float:
        return float(self.interval)

    @property
    def going(self) -> bool:
        """Whether it runs. What its report says is taken in: to be called more than once a second."""
        self._file.look()
        # Its lines are gone as soon as the next benchmark has begun.
        if self._file.closed != self.number or self._file.begun != self.number + 1:
            self._ended_ns = self._ended_ns or time.monotonic_ns()
            return False
        self.ask()
        self._ran_ns = time.monotonic_ns()
        return True

    def ask(self) -> None:
        if self.failed or self._file.begun != self.number + 1:
            return
        try:
            self.report.poll()
        except (MeasurementError, OSError) as error:
            self.failed = error.what if isinstance(error, MeasurementError) else f"{self.report.path}: {error.strerror}"

    def at(self, moment_ns: int) -> float | None:
        return self.report.at(moment_ns)

    def off(self, moment_ns: int) -> float:
        return self.report.off(moment_ns)

    @property
    def rate_of_all(self) -> Interval | None:
        """Operations a second from its begin to its end; None where its end was not seen."""
        if not self._ended_ns or not self.known.moments:
            return None
        # A busy host may show its first lines with its header: it began as many intervals before.
        begun = self.known.moments[0] - self.report.unseen * self.interval * 1_000_000_000
        return rate_of_all(self.known, begun, self._ran_ns, self._ended_ns)

    @property
    def operations(self) -> int:
        """That were finished so far."""
        return sum(self.report.rates)

    @property
    def has_begun(self) -> bool:
        """Whether all of its threads have started: they wait for one another before the first operation.

        Where they wait for a CPU there are lines before, of no operations; those of a compaction are all of none.
        """
        return self.operations > 0 or len(self.report.rates) * self.interval >= _IDLE_SECONDS

    @property
    def rate(self) -> float:
        """Operations a second, by the last lines from the first operation on; 0 before it."""
        last = list(dropwhile(lambda rate: not rate, self.report.rates))[-3:]
        return sum(last) / len(last) / self.interval if last else 0.0


class QueriesBesideWriter:
    """The queries of a report that counts a writer's operations among them."""

    def __init__(self, every: Counted, writer: Counted) -> None:
        self.count = Count(f"{every.count.what}, without the writer's operations", every.count.read)
        self._every, self._writer = every, writer

    @property
    def failed(self) -> str:
        return self._every.failed or self._writer.failed

    @property
    def every(self) -> float:
        return self._every.every

    @property
    def known(self) -> KnownCounts:
        return self._every.known

    def ask(self) -> None:
        self._every.ask()

    def at(self, moment_ns: int) -> float | None:
        every, written = self._every.at(moment_ns), self._writer.at(moment_ns)
        return None if every is None or written is None else every - written

    def off(self, moment_ns: int) -> float:
        return math.hypot(self._every.off(moment_ns), self._writer.off(moment_ns))
