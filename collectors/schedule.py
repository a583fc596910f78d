"""One process, many windows: warm-up, plain, perf, plain, each with the counters' deltas at its exact edges."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from collectors.counters import ProcessProbe, Snapshot, delta
from collectors.queries import QueryReport
from ioflame.errors import IoflameError, MeasurementError
from ioflame.observer import Observer
from ioflame.process import Child
from ioflame.progress import Reporter
from ioflame.run import Window

__all__ = ("Schedule",)

_POLL_SECONDS = 0.2
_SLICE_NS = 1_000_000_000
# The engine's report comes once a second: this long after an edge, the queries at that edge are known.
REPORT_LAG_SECONDS = 1.6
_OPEN_SECONDS = 300.0
# Warm-up is over when this many whole seconds differ by no more than this share of their mean...
_FLAT_SECONDS = 3
_FLAT_SPREAD = 0.10
# ...and the process has read this many times the size of the block cache.
_CACHE_FILLS = 2.0


class Schedule:
    """The windows of one running workload.

    child:  the workload's process, whose end within a window is an error
    report: its count of finished queries
    log:    where its own words are, for the error
    """

    def __init__(self, child: Child, probe: ProcessProbe, report: QueryReport, log: Path, reporter: Reporter) -> None:
        self._child = child
        self._probe = probe
        self._report = report
        self._log = log
        self._reporter = reporter
        self._edges: list[tuple[str, Snapshot, Snapshot, str]] = []
        self._slices: list[tuple[str, Snapshot, Snapshot]] = []

    def wait_until_reading(self) -> None:
        """Returns when the engine has opened the database and sends queries."""
        deadline = time.monotonic() + _OPEN_SECONDS
        while not self._report.begun:
            self._step()
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"the engine did not begin its queries within {_OPEN_SECONDS:.0f} s", mend=f"read {self._log}"
                )

    def warm_up(self, bound: float, cache_size: int, trial: Callable[[], None]) -> None:
        """Waits until the block cache has been filled and QPS is flat, or for `bound` seconds; then runs `trial`.

        cache_size: bytes that have to be read twice over; 0 where the data fit into the cache and QPS alone decides.
        The trial comes last: what it sees is the steady state that it decides for.
        """
        first = self._probe.snapshot()
        deadline = time.monotonic() + bound
        with self._reporter.stage("warm-up: until the block cache is full and QPS is flat", bound):
            while time.monotonic() < deadline:
                self._step()
                # The first second holds the opening of the files.
                seconds = self._report.rates[1:][-_FLAT_SECONDS:]
                filled = self._probe.read_bytes() >= _CACHE_FILLS * cache_size
                if filled and len(seconds) == _FLAT_SECONDS and _spread(seconds) <= _FLAT_SPREAD:
                    note = f"the cache has been filled {_CACHE_FILLS:.0f} times over and QPS is flat"
                    if not cache_size:
                        note = "QPS is flat"
                    break
            else:
                note = f"bound of {bound:.0f} s reached before QPS was flat"
            trial()
            self._step()
        self._edges.append(("warm-up", first, self._probe.snapshot(), note))

    def plain(self, seconds: float) -> None:
        """A window with nothing attached."""
        with self._reporter.stage("plain window: nothing attached", seconds):
            self._window("plain", seconds)

    def observed(self, observer: Observer, seconds: float) -> None:
        """A window of the observer's; what it raises goes on to the caller once it is detached."""
        with self._reporter.stage(f"{observer.kind} window: {observer.what}", seconds):
            try:
                observer.attach()
                observer.open()
                self._window(observer.kind, seconds)
                observer.close()
            except BaseException:
                # What went wrong first is what the user has to know.
                with contextlib.suppress(IoflameError):
                    observer.detach()
                raise
            observer.detach()

    def _window(self, kind: str, seconds: float) -> None:
        first = slice_first = self._probe.snapshot()
        end = first.at_ns + int(seconds * 1e9)
        while (left := end - time.monotonic_ns()) > 0:
            self._step(left / 1e9)
            if time.monotonic_ns() - slice_first.at_ns >= _SLICE_NS and end - time.monotonic_ns() >= _SLICE_NS // 2:
                now = self._probe.snapshot()
                self._slices.append((kind, slice_first, now))
                slice_first = now
        last = self._probe.snapshot()
        self._slices.append((kind, slice_first, last))
        self._edges.append((kind, first, last, ""))

    def finish(self) -> None:
        """Waits for the report of the last edge; call it before the workload may end."""
        if not self._edges:
            return
        deadline = self._edges[-1][2].at_ns / 1e9 + REPORT_LAG_SECONDS
        while self._child.running and time.monotonic() < deadline:
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
        if self._child.returncode == 0:
            raise MeasurementError(
                "the workload came to its own end before the last window did",
                means="starting and ending perf took longer than the schedule allows for: this host is too busy",
                mend="run it again when the host is quieter   (uptime)",
            )
        if not self._child.running:
            words = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
            raise MeasurementError(
                f"the workload ended in the middle of the measurement: {self._child.describe_end()}",
                means="the windows before are kept; it said last: " + (words[-1][-300:] if words else "nothing"),
                mend=f"read {self._log}",
            )


def _spread(values: list[int]) -> float:
    """Largest minus smallest, as a share of the mean."""
    mean = sum(values) / len(values)
    return (max(values) - min(values)) / mean if mean else 1.0
