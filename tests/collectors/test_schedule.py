"""The windows of a workload: whose fault its end was, and whose its queries are, by a clock of our own."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from collectors.counters import device_of
from collectors.queries import QueryReport
from collectors.schedule import LEAST_SECONDS, Schedule, what_is_missing
from ground.errors import MeasurementError
from ground.system.observer import NullObserver
from ground.system.process import Child, Children
from ground.text.progress import Reporter
from workloads.engines.rocksdb.engine import RocksDB

LIFETIME, SECOND = 4, 1_000_000_000
# Reports so many seconds once it is told to, dated one second apart, and ends.
ENGINE = """
import os, sys, time
begun = time.time_ns()
with open(sys.argv[1], "w") as report:
    for second in range(int(sys.argv[2]) + 1):
        report.write(f"{second},1000\\n" if second else "secs_elapsed,interval_qps\\n")
        report.flush()
        os.utime(sys.argv[1], ns=(begun, begun + second * 10**9))
        while not os.path.exists(sys.argv[1] + ".go"): time.sleep(0.001)
print("these are my last words", flush=True)
"""


def schedule_of(child: Child, place: Path, lifetime: float = LIFETIME) -> Schedule:
    report = QueryReport(place / "report.csv", RocksDB().parse_report)
    return Schedule(child, device_of(place), report, lifetime, place / "log", Reporter(quiet=True))


@pytest.mark.parametrize(
    ("seconds", "says"), [(LIFETIME, "this host is too busy"), (1, "its last output: these are my last words")]
)
@pytest.mark.parametrize("busy", [False, True], ids=["in the window", "before it, while we were busy"])
def test_who_is_to_blame_for_an_end(children: Children, tmp_path: Path, seconds: int, says: str, busy: bool) -> None:
    argv = [sys.executable, "-c", ENGINE, str(tmp_path / "report.csv"), str(seconds)]
    child = children.start("engine", argv, stdout=tmp_path / "log")
    schedule = schedule_of(child, tmp_path)
    assert schedule.wait_until_reading() == child.pid
    (tmp_path / "report.csv.go").touch()
    if busy:
        assert child.wait(60) == 0
    with pytest.raises(MeasurementError) as caught:
        schedule.plain(60)
    assert says in str(caught.value)
    assert ("too busy" in str(caught.value)) == (seconds == LIFETIME)


def test_the_engine_is_found_below_its_wrapper(children: Children, tmp_path: Path) -> None:
    engine = shlex.join([sys.executable, "-c", ENGINE, str(tmp_path / "report.csv"), "600"])
    child = children.start("wrapper", ["sh", "-c", f"sleep 1000 & {engine}; :"], stdout=tmp_path / "log")
    found = schedule_of(child, tmp_path).wait_until_reading()
    assert found != child.pid
    assert ENGINE in Path(f"/proc/{found}/cmdline").read_text().split("\0")


def test_a_wrapper_whose_engine_is_not_to_be_found_is_refused(children: Children, tmp_path: Path) -> None:
    """Whatever is measured instead would be measured as if it were the engine."""
    report = shlex.quote(str(tmp_path / "report.csv"))
    argv = ["sh", "-c", f"sleep 1000 & echo secs_elapsed,interval_qps > {report}; wait"]
    child = children.start("wrapper", argv, stdout=tmp_path / "log")
    with pytest.raises(MeasurementError, match="which of them is the engine is not known"):
        schedule_of(child, tmp_path).wait_until_reading()


class Simulated(NullObserver):
    """Clock and engine of a schedule. It has 1,000 queries a second, 250 while watched, none while stopped.

    Its report has a line a second; one that is due while it is stopped comes when it goes on. As an observer it takes
    2.3 s to attach and to go.
    """

    def __init__(self, report: Path) -> None:
        self.now, self.queries, self.watched, self.stopped = 1000 * SECOND, 0.0, False, False
        self.seen: list[float] = []
        self._report, self._due, self._written = report, self.now + SECOND, 0
        self._write("secs_elapsed,interval_qps\n")

    def _write(self, line: str) -> None:
        with self._report.open("a") as file:
            file.write(line)
        os.utime(self._report, ns=(self.now, self.now))

    def sleep(self, seconds: float) -> None:
        for _ in range(max(int(seconds * 1000), 1)):
            self.now += SECOND // 1000
            if self.stopped:
                continue
            self.queries += 0.25 if self.watched else 1
            if self.now >= self._due:
                total = int(self.queries)
                self._write(f"1,{total - self._written}\n")
                self._written, self._due = total, self.now + SECOND

    def monotonic(self) -> float:
        return self.now / SECOND

    def monotonic_ns(self) -> int:
        return self.now

    time_ns = monotonic_ns

    def attach(self) -> None:
        self.sleep(2.3)

    def open(self) -> None:
        self.watched = True
        self.seen.append(self.queries)

    def close(self) -> None:
        self.watched = False
        self.seen.append(self.queries)

    detach = attach


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulated:
    clock = Simulated(tmp_path / "report.csv")
    for module in ("schedule", "windows", "queries", "counters"):
        monkeypatch.setattr(f"collectors.{module}.time", clock)
    return clock


@pytest.fixture
def schedule(children: Children, tmp_path: Path, simulated: Simulated) -> Schedule:
    """Of an engine whose process sleeps: its queries are simulated."""
    assert simulated.now
    found = schedule_of(children.start("engine", ["sleep", "1000"]), tmp_path, lifetime=30)
    found.wait_until_reading()
    return found


def test_the_last_plain_window_lasts_as_long_as_the_engine_has_queries(
    schedule: Schedule, simulated: Simulated
) -> None:
    """Less 4.1 s, for a report that comes late and a begin that was seen late; 0.2 s have passed."""
    schedule.last_plain()
    simulated.sleep(1)
    schedule.last_plain()
    assert [window.seconds for window in schedule.windows()] == pytest.approx([30 - 0.2 - 4.1, LEAST_SECONDS])


def test_the_queries_until_a_stop_are_known_when_it_goes_on(schedule: Schedule, simulated: Simulated) -> None:
    for seconds in (1.5, 0.3):
        schedule.plain(seconds)
        schedule.hold()
        assert schedule.windows()[-1].counters.queries is None
        simulated.stopped = True
        # Longer than anybody waits for a report that an engine owes.
        simulated.sleep(60)
        simulated.stopped = False
        schedule.go_on()
    schedule.finish()
    assert [window.counters.queries for window in schedule.windows()] == pytest.approx([1500, 300], abs=2)


def test_the_queries_of_a_window_that_slows_them_are_its_own(schedule: Schedule, simulated: Simulated) -> None:
    """Shared out evenly over the time between two lines, a third too many were taken for the window's."""
    schedule.observed(simulated, 4)
    schedule.finish()
    (window,) = schedule.windows()
    first, last = simulated.seen
    assert window.seconds > 3.4 and window.counters.queries == pytest.approx(last - first, abs=12)


# ---- whether it is warm: rates and page faults by second, bytes read
CACHE = 16 << 20
FLAT = [100, 9000, 9100, 9050]


def test_a_steady_state_has_nothing_missing() -> None:
    assert what_is_missing(FLAT, [40_000, 5, 3, 0], 2 * CACHE, CACHE) == []
    assert what_is_missing(FLAT, [0, 5000, 5100, 5050], 2 * CACHE, CACHE) == []  # an allocator that gives back: steady
    assert what_is_missing(FLAT, [0, 0, 0, 0], 0, 0) == []  # everything in the cache: nothing has to be read


@pytest.mark.parametrize(
    ("rates", "faults", "read", "says"),
    [
        (FLAT, [0, 0, 0, 0], CACHE, "the cache was filled 1.0 times"),
        ([100, 5000, 7000, 9000], [0, 0, 0, 0], 2 * CACHE, "QPS was still changing"),
        (FLAT[:3], [0, 0, 0], 2 * CACHE, "QPS was still changing"),  # two whole seconds after the first
        (FLAT, [0, 4000, 2000, 1000], 2 * CACHE, "page faults were not rare or steady"),
        ([0, 0, 0, 0], [0, 0, 0, 0], 2 * CACHE, "QPS was still changing"),
    ],
)
def test_what_speaks_against_a_steady_state_is_named(rates: list[int], faults: list[int], read: int, says: str) -> None:
    assert says in what_is_missing(rates, faults, read, CACHE)
