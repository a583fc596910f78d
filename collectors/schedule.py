"""One process, many windows: warm-up, plain, perf, plain, each with the counters' deltas at its exact edges."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from collectors.counters import Device, ProcessProbe, Roles, Snapshot
from collectors.queries import QueryReport
from collectors.windows import SLICE_NS, Edge, Windows
from ground.errors import MeasurementError, UsageError
from ground.settings import Setting
from ground.system.descendants import descendants, having_open
from ground.system.held_process import HeldProcess
from ground.system.process import Child
from ground.text.progress import Reporter

_POLL_SECONDS = 0.2
# The engine's report comes once a second: this long after an edge, the queries at that edge are known.
REPORT_LAG_SECONDS = 1.6
# On a host whose CPUs are stolen it may take this long.
_REPORT_SECONDS = 4.0
# Waiting for its next line: how often it is looked at, and how late it may come.
_LINE_POLL_SECONDS = 0.01
_LINE_SECONDS = 2.0
_OPEN_SECONDS = 300.0
# The shortest plain window that is worth having.
LEAST_SECONDS = 2.0
# The engine's last line comes up to a second before its end, and ours of its first up to a second late.
_END_SECONDS = 2.5
_TAIL = 400
# These many whole seconds may differ by no more than this share of their mean...
_FLAT_SECONDS = 3
_FLAT_SPREAD = 0.10
# ...the process has to have read this many times the size of the block cache...
CACHE_FILLS = 2.0
# ...and memory is no longer touched for the first time: a cache that fills faults once or more a block.
_FAULTS_PER_QUERY = 0.02


class Schedule(Windows):
    """The windows of one running workload.

    child:    the workload as it was started: the engine, or a wrapper of it; its end within a window is an error
    device:   that the database is on
    report:   its count of finished queries
    lifetime: seconds of queries that it was asked for
    log:      where its own words are, for the error
    roles:    gives the roles of its threads, where they are to be counted apart
    """

    def __init__(
        self,
        child: Child,
        device: Device,
        report: QueryReport,
        lifetime: float,
        log: Path,
        reporter: Reporter,
        roles: Roles | None = None,
    ) -> None:
        super().__init__(reporter)
        self._child = child
        self._device = device
        self._report = report
        self._lifetime = lifetime
        self._log = log
        self._roles = roles
        self._engine: HeldProcess | None = None
        self._begun_ns = self._held_ns = self._went_on_ns = 0

    def wait_until_reading(self) -> int:
        """Returns when the engine has opened the database and sends queries; its pid, which all that watches is given.

        MeasurementError when it ends or does not begin, or when none of the processes below `child` is the engine.
        """
        deadline = time.monotonic() + _OPEN_SECONDS
        with self._reporter.waits_for(f"{self._child.name} to open the database and begin its queries"):
            while not self._report.begun:
                self._step()
                if time.monotonic() > deadline:
                    raise MeasurementError(
                        f"the engine did not begin its queries within {_OPEN_SECONDS:.0f} s",
                        means=f"its last output: {self._last_words()}",
                        mend=f"read {shlex.quote(str(self._log))}",
                    )
        # Its first line is seen up to a second late at most; the margin at its end is more.
        self._begun_ns = self._report.started_ns or time.monotonic_ns()
        try:
            self._engine = HeldProcess(self._engine_pid())
        except UsageError:  # it is gone already
            raise self._ended() from None
        self._probe = ProcessProbe(self._engine.pid, self._device, by_thread=self._roles is not None)
        return self._engine.pid

    def _engine_pid(self) -> int:
        """The process that writes the report: DB_BENCH may be a wrapper that starts it and waits."""
        tree = descendants([self._child.pid])
        writers = having_open(self._report.path, tree)
        if writers or len(tree) == 1:
            return writers[0] if writers else self._child.pid
        raise MeasurementError(
            f"none of the {len(tree)} processes that {self._child.argv[0]} started has {self._report.path} open",
            means="which of them is the engine is not known, so nothing of it can be counted",
            mend=Setting.DB_BENCH.to("<the client itself, or a wrapper that ends with exec>"),
        )

    def warm_up(self, bound: float, cache_size: int, trial: Callable[[], None]) -> None:
        """Waits until nothing speaks against a steady state any more, or for `bound` seconds; then runs `trial`.

        cache_size: bytes that have to be read twice over; 0 where the data fit into the cache and QPS alone decides.
        The trial comes last: what it sees is the steady state that it decides for.
        """
        first = self._snapshot()
        deadline = time.monotonic() + bound
        faults: list[int] = []
        before = self._probe.minor_faults()
        with self._reporter.stage("warm-up: until cache, page faults and QPS are steady", bound, "warm-up"):
            while True:
                late = time.monotonic() >= deadline
                self._step()
                if new := len(self._report.rates) - len(faults):
                    now = self._probe.minor_faults()
                    faults += [(now - before) // new] * new
                    before = now
                missing = what_is_missing(self._report.rates, faults, self._probe.read_bytes(), cache_size)
                if late or not missing:
                    break
            trial()
            self._step()
        note = f"bound of {bound:.0f} s reached before the end: {', '.join(missing)}"
        if not missing:
            cache = f"the cache has been filled {CACHE_FILLS:.0f} times over, " if cache_size else ""
            note = f"{cache}QPS is flat, page faults are rare or steady"
        self._edges.append(Edge("warm-up", first, self._snapshot(), note))

    def rest(self, seconds: float) -> None:
        """Lets the engine run for so long; no window."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._step(left)

    def hold(self) -> None:
        """Stops the engine where it is. Its queries until then are known with its first report after `go_on`."""
        assert self._engine is not None
        self._engine.stop()
        self._held_ns = time.monotonic_ns()

    def go_on(self) -> None:
        """Lets a stopped engine run again. MeasurementError where it has ended meanwhile."""
        assert self._engine is not None
        self._went_on_ns = time.monotonic_ns()
        self._report.paused(self._held_ns, self._went_on_ns)
        if not self._engine.go_on():
            raise self._ended()

    def last_plain(self) -> None:
        """The last plain window: as long as the engine still sends queries.

        What a short warm-up and quick observers leave of the engine's time goes here, and nobody waits for it after.
        Where they took longer than was planned, the window is short, but not below `LEAST_SECONDS`.
        """
        self.plain(max(self.seconds_left, LEAST_SECONDS))

    @property
    def seconds_left(self) -> float:
        """In which the engine still sends queries, and reports them."""
        left = self._lifetime - (time.monotonic_ns() - self._begun_ns) / 1e9
        return left - REPORT_LAG_SECONDS - _END_SECONDS

    def finish(self) -> None:
        """Waits until the report covers the last edge, as long as it may take; call it before the workload may end."""
        if not self._edges:
            return
        last = self._edges[-1].last.at_ns
        # An engine that was stopped since then reports once it is continued.
        deadline = max(last, self._went_on_ns) / 1e9 + _REPORT_SECONDS
        while self._child.running and self._report.at(last) is None and time.monotonic() < deadline:
            self._step()

    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:
        return self._roles(snapshot.names(), self._engine.pid) if self._roles and self._engine else {}

    @property
    def _count_every_ns(self) -> int:
        return SLICE_NS

    def _finished_at(self, moment_ns: int) -> float | None:
        return self._report.at(moment_ns)

    def _off_at(self, moment_ns: int) -> float:
        return self._report.off(moment_ns)

    def _await_count(self) -> None:
        """Until the report's next line; where it is late, for as long as it may be."""
        self._report.poll()
        known, deadline = len(self._report.rates), time.monotonic() + _LINE_SECONDS
        while len(self._report.rates) == known and time.monotonic() < deadline:
            self._step(_LINE_POLL_SECONDS)

    def _step(self, at_most: float = _POLL_SECONDS) -> bool:
        time.sleep(min(_POLL_SECONDS, at_most))
        self._report.poll()
        if not self._child.running or (self._engine is not None and not self._engine.alive):
            raise self._ended()
        return True

    def _snapshot(self) -> Snapshot:
        """The counters now; where the engine ended while we were busy with what watches, the reason why."""
        try:
            return self._probe.snapshot()
        except MeasurementError:
            if self._engine is not None and self._engine.alive:
                raise
            raise self._ended() from None

    def _ended(self) -> MeasurementError:
        """Why there is no engine any more: too little time was planned for it, or it ended of itself."""
        self._child.wait(5.0)  # a wrapper ends after it, with its exit code
        again = f"read {shlex.quote(str(self._log))}; to see it again: {shlex.join(self._child.argv)}"
        if self._child.returncode != 0:
            end = f"its wrapper {self._child.argv[0]} runs on" if self._child.running else self._child.describe_end()
            return MeasurementError(
                f"the workload ended in the middle of the measurement: {end}",
                means=f"the windows before are kept; its last output: {self._last_words()}",
                mend=again,
            )
        self._report.poll()
        if self._report.seconds >= self._lifetime - _END_SECONDS:
            return MeasurementError(
                "the workload ended before the last window did",
                means="starting and ending what watches took longer than was planned for: this host is too busy",
                mend="run it again when the host is quieter   (uptime)",
            )
        lasted = f"after {self._report.seconds:.0f} s of queries" if self._report.begun else "before its first query"
        return MeasurementError(
            f"{self._child.name} ended {lasted}, with exit code 0; it was asked for {self._lifetime:.0f} s",
            means=f"{self._child.argv[0]} did not do what it was asked to; its last output: {self._last_words()}",
            mend=again,
        )

    def _last_words(self) -> str:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip() if self._log.exists() else ""
        return " / ".join(words[-_TAIL:].splitlines()) or "nothing"


def what_is_missing(rates: Sequence[int], faults: Sequence[int], read_bytes: int, cache_size: int) -> list[str]:
    """What still speaks against a steady state; empty once the warm-up is over.

    rates: queries of each whole second; faults: minor page faults of each of them; cache_size: bytes to be read
    CACHE_FILLS times, 0 where the data fit into the cache. The first second, which holds the opening of the files, does
    not count.
    """
    seconds, faulted = rates[1:][-_FLAT_SECONDS:], faults[1 : len(rates)][-_FLAT_SECONDS:]
    missing = []
    if read_bytes < CACHE_FILLS * cache_size:
        missing.append(f"the cache was filled {read_bytes / cache_size:.1f} times")
    if len(seconds) < _FLAT_SECONDS or _spread(seconds) > _FLAT_SPREAD:
        missing.append("QPS was still changing")
    queries = sum(seconds)
    if len(faulted) < _FLAT_SECONDS or (sum(faulted) > _FAULTS_PER_QUERY * queries and _spread(faulted) > _FLAT_SPREAD):
        missing.append("page faults were not rare or steady")
    return missing


def _spread(values: Sequence[int]) -> float:
    """Largest minus smallest, as a share of the mean."""
    mean = sum(values) / len(values)
    return (max(values) - min(values)) / mean if mean else 1.0
