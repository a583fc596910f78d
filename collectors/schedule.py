"""One process, many windows: warm-up, plain, perf, plain, each with the counters' deltas at its exact edges."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from collectors.counters import Device, ProcessProbe, Snapshot, delta
from collectors.queries import QueryReport
from collectors.warmup import CACHE_FILLS, what_is_missing
from ioflame.descendants import descendants, having_open
from ioflame.errors import MeasurementError, UsageError
from ioflame.held_process import HeldProcess
from ioflame.observer import Observer, attached
from ioflame.process import Child
from ioflame.progress import Reporter
from ioflame.record import Window

__all__ = ("Schedule",)

_POLL_SECONDS = 0.2
_SLICE_NS = 1_000_000_000
# The engine's report comes once a second: this long after an edge, the queries at that edge are known.
REPORT_LAG_SECONDS = 1.6
# On a host whose CPUs are stolen it may take this long.
_REPORT_SECONDS = 4.0
_OPEN_SECONDS = 300.0
# The engine's last line comes up to a second before its end, and ours of its first up to a second late.
_END_SECONDS = 2.5
_TAIL = 400


class Schedule:
    """The windows of one running workload.

    child:    the workload as it was started: the engine, or a wrapper of it; its end within a window is an error
    device:   that the database is on
    report:   its count of finished queries
    lifetime: seconds of queries that it was asked for
    log:      where its own words are, for the error
    """

    def __init__(
        self, child: Child, device: Device, report: QueryReport, lifetime: float, log: Path, reporter: Reporter
    ) -> None:
        self._child = child
        self._device = device
        self._report = report
        self._lifetime = lifetime
        self._log = log
        self._reporter = reporter
        self._engine: HeldProcess | None = None
        self._edges: list[tuple[str, Snapshot, Snapshot, str]] = []
        self._slices: list[tuple[str, Snapshot, Snapshot]] = []

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
                        means=f"it said last: {self._last_words()}",
                        mend=f"read {shlex.quote(str(self._log))}",
                    )
        try:
            self._engine = HeldProcess(self._engine_pid())
        except UsageError:  # it is gone already
            raise self._ended() from None
        self._probe = ProcessProbe(self._engine.pid, self._device)
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
            mend="DB_BENCH=<the db_bench itself, or a wrapper that ends with exec>",
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
        missing = ["QPS was not flat"]
        with self._reporter.stage("warm-up: until cache, page faults and QPS are steady", bound):
            while missing and time.monotonic() < deadline:
                self._step()
                if new := len(self._report.rates) - len(faults):
                    now = self._probe.minor_faults()
                    faults += [(now - before) // new] * new
                    before = now
                missing = what_is_missing(self._report.rates, faults, self._probe.read_bytes(), cache_size)
            trial()
            self._step()
        note = f"bound of {bound:.0f} s reached before the end: {', '.join(missing)}"
        if not missing:
            cache = f"the cache has been filled {CACHE_FILLS:.0f} times over, " if cache_size else ""
            note = f"{cache}QPS is flat, page faults are rare or steady"
        self._edges.append(("warm-up", first, self._snapshot(), note))

    def plain(self, seconds: float, what: str = "plain window: nothing attached") -> None:
        """A window with nothing attached. what: said of it while it runs."""
        with self._reporter.stage(what, seconds):
            self._window("plain", seconds)

    def observed(self, observer: Observer, seconds: float) -> None:
        """A window of the observer's; what it raises goes on to the caller once it is detached."""
        reporter = self._reporter
        with reporter.stage(f"{observer.kind} window: {observer.what}", seconds), attached(observer, reporter):
            with reporter.waits_for(f"{observer.kind} to begin"):
                observer.open()
            self._window(observer.kind, seconds)
            with reporter.waits_for(f"{observer.kind} to stop counting"):
                observer.close()

    def _window(self, kind: str, seconds: float) -> None:
        first = slice_first = self._snapshot()
        end = first.at_ns + int(seconds * 1e9)
        while (left := end - time.monotonic_ns()) > 0:
            self._step(left / 1e9)
            if time.monotonic_ns() - slice_first.at_ns >= _SLICE_NS and end - time.monotonic_ns() >= _SLICE_NS // 2:
                now = self._snapshot()
                self._slices.append((kind, slice_first, now))
                slice_first = now
        last = self._snapshot()
        self._slices.append((kind, slice_first, last))
        self._edges.append((kind, first, last, ""))

    def finish(self) -> None:
        """Waits until the report covers the last edge, as long as it may take; call it before the workload may end."""
        if not self._edges:
            return
        last = self._edges[-1][2].at_ns
        deadline = last / 1e9 + _REPORT_SECONDS
        while self._child.running and self._report.at(last) is None and time.monotonic() < deadline:
            self._step()

    def windows(self) -> list[Window]:
        """The windows so far, with their deltas; `queries` is None where the report does not cover an edge."""
        return [self._between(kind, first, last, note) for kind, first, last, note in self._edges]

    def series(self) -> list[Window]:
        """The plain and observed windows second by second: the last slice of a window is up to 1.5 s long."""
        return [self._between(kind, first, last) for kind, first, last in self._slices]

    def _between(self, kind: str, first: Snapshot, last: Snapshot, note: str = "") -> Window:
        begun, ended = self._report.at(first.at_ns), self._report.at(last.at_ns)
        queries = ended - begun if begun is not None and ended is not None else None
        return Window(kind, first.at_ns, last.at_ns, delta(first, last, queries), note)

    def _step(self, at_most: float = _POLL_SECONDS) -> None:
        time.sleep(min(_POLL_SECONDS, at_most))
        self._report.poll()
        if not self._child.running or (self._engine is not None and not self._engine.alive):
            raise self._ended()

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
        self._child.wait(1.0)  # a wrapper ends after it, with its exit code
        again = f"read {shlex.quote(str(self._log))}; to see it again: {shlex.join(self._child.argv)}"
        if self._child.returncode != 0:
            end = f"its wrapper {self._child.argv[0]} runs on" if self._child.running else self._child.describe_end()
            return MeasurementError(
                f"the workload ended in the middle of the measurement: {end}",
                means=f"the windows before are kept; it said last: {self._last_words()}",
                mend=again,
            )
        self._report.poll()
        if self._report.seconds >= self._lifetime - _END_SECONDS:
            return MeasurementError(
                "the workload came to its own end before the last window did",
                means="starting and ending what watches took longer than was planned for: this host is too busy",
                mend="run it again when the host is quieter   (uptime)",
            )
        lasted = f"after {self._report.seconds:.0f} s of queries" if self._report.begun else "before its first query"
        return MeasurementError(
            f"{self._child.name} ended {lasted}, with exit code 0; it was asked for {self._lifetime:.0f} s",
            means=f"{self._child.argv[0]} does not do what it was asked for; it said last: {self._last_words()}",
            mend=again,
        )

    def _last_words(self) -> str:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip() if self._log.exists() else ""
        return " / ".join(words[-_TAIL:].splitlines()) or "nothing"
