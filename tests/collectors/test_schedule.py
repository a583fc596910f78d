"""A workload that ends on us, with a real process that writes a report as db_bench does: whose fault was it?"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.counters import device_of
from collectors.queries import QueryReport
from collectors.schedule import LEAST_SECONDS, Schedule
from ground.errors import MeasurementError
from ground.system.observer import NullObserver
from ground.system.process import Child, Children
from ground.text.progress import Reporter
from workloads.engines.rocksdb.engine import RocksDB

LIFETIME = 4
# Reports so many seconds, one tenth of a second apart but dated one second apart, and ends.
ENGINE = """
import os, sys, time
begun = time.time_ns()
with open(sys.argv[1], "w") as report:
    for second in range(int(sys.argv[2]) + 1):
        report.write(f"{second},1000\\n" if second else "secs_elapsed,interval_qps\\n")
        report.flush()
        os.utime(sys.argv[1], ns=(begun, begun + second * 10**9))
        time.sleep(0.1)
print("these are my last words", flush=True)
"""


@pytest.fixture
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


def schedule_of(child: Child, tmp_path: Path) -> Schedule:
    report = QueryReport(tmp_path / "report.csv", RocksDB().parse_report)
    return Schedule(child, device_of(tmp_path), report, LIFETIME, tmp_path / "log", Reporter(quiet=True))


@pytest.mark.slow
@pytest.mark.parametrize("lifetime", [3, 12])
def test_the_last_plain_window_lasts_as_long_as_the_engine_has_queries(
    children: Children, tmp_path: Path, lifetime: int
) -> None:
    """Of 12 s there are some left, of 3 s only the least that is worth having."""
    report = QueryReport(tmp_path / "report.csv", RocksDB().parse_report)
    argv = [sys.executable, "-c", ENGINE, str(tmp_path / "report.csv"), "200"]
    child = children.start("engine", argv, stdout=tmp_path / "log")
    schedule = Schedule(child, device_of(tmp_path), report, lifetime, tmp_path / "log", Reporter(quiet=True))
    schedule.wait_until_reading()
    schedule.last_plain()
    (window,) = schedule.windows()
    assert window.seconds >= LEAST_SECONDS
    # The engine began before the window; what is left of its time is for its last line.
    assert lifetime - window.seconds < 6 if lifetime == 12 else window.seconds < 2 * LEAST_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "says"),
    [(LIFETIME, "this host is too busy"), (1, "its last output: these are my last words")],
)
@pytest.mark.parametrize("busy", [False, True], ids=["in the window", "before it, while we were busy"])
def test_who_is_to_blame_for_an_end(children: Children, tmp_path: Path, seconds: int, says: str, busy: bool) -> None:
    argv = [sys.executable, "-c", ENGINE, str(tmp_path / "report.csv"), str(seconds)]
    child = children.start("engine", argv, stdout=tmp_path / "log")
    schedule = schedule_of(child, tmp_path)
    assert schedule.wait_until_reading() == child.pid
    if busy:
        assert child.wait(30) == 0
    with pytest.raises(MeasurementError) as caught:
        schedule.plain(30)
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


# Reports once a second of the clock, as db_bench does: at once where that has passed while it was stopped.
REPORTS = """
import sys, time
with open(sys.argv[1], "w") as report:
    report.write("secs_elapsed,interval_qps\\n"); report.flush()
    queries, last, due = 0, 0, time.monotonic() + 1
    while True:
        queries += 1
        time.sleep(0.001)
        if time.monotonic() >= due:
            report.write(f"1,{queries - last}\\n"); report.flush()
            last, due = queries, time.monotonic() + 1
"""


@pytest.mark.slow
def test_the_queries_until_a_stop_are_known_when_it_goes_on(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = QueryReport(tmp_path / "report.csv", RocksDB().parse_report)
    child = children.start("engine", [sys.executable, "-c", REPORTS, str(tmp_path / "report.csv")])
    schedule = Schedule(child, device_of(tmp_path), report, 3600, tmp_path / "log", Reporter(quiet=True))
    schedule.wait_until_reading()
    schedule.plain(1.5)
    schedule.hold()
    assert schedule.windows()[0].counters.queries is None
    schedule.go_on()
    schedule.plain(0.3)
    schedule.hold()
    before, after = schedule.windows()
    assert after.counters.queries is None
    # Longer than anybody waits for a report that an engine owes.
    monkeypatch.setattr("collectors.schedule._REPORT_SECONDS", 1.0)
    time.sleep(1.2)
    schedule.go_on()
    schedule.finish()
    before, after = schedule.windows()
    for window in (before, after):
        # A query is a millisecond or more, and a report is dated to a tick.
        assert window.counters.queries is not None and 0 < window.counters.queries <= 1100 * window.seconds


# Queries of 1 ms, and of 4 ms while the file of the second argument is there; how many there were is in the third.
SLOWED = """
import os, sys, time
count = os.open(sys.argv[3], os.O_CREAT | os.O_WRONLY)
with open(sys.argv[1], "w") as report:
    report.write("secs_elapsed,interval_qps\\n"); report.flush()
    queries, last, due = 0, 0, time.monotonic() + 1
    while True:
        queries += 1
        os.pwrite(count, str(queries).encode(), 0)
        time.sleep(0.004 if os.path.exists(sys.argv[2]) else 0.001)
        if time.monotonic() >= due:
            report.write(f"1,{queries - last}\\n"); report.flush()
            last, due = queries, due + 1
"""


class Slowing(NullObserver):
    """Queries are slower while it is open, and it takes its time to attach and to go."""

    def __init__(self, place: Path) -> None:
        self._slow, self._count = place / "slow", place / "count"
        self.seen: list[int] = []

    def attach(self) -> None:
        time.sleep(2.3)

    def open(self) -> None:
        self._slow.touch()
        self.seen.append(int(self._count.read_text()))

    def close(self) -> None:
        self._slow.unlink()
        self.seen.append(int(self._count.read_text()))

    def detach(self) -> None:
        time.sleep(2.3)


@pytest.mark.slow
def test_the_queries_of_a_window_that_slows_them_are_its_own(children: Children, tmp_path: Path) -> None:
    """Shared out evenly over the time between two lines, a third too many were taken for the window's."""
    report, observer = QueryReport(tmp_path / "report.csv", RocksDB().parse_report), Slowing(tmp_path)
    argv = [sys.executable, "-c", SLOWED, *(str(tmp_path / name) for name in ("report.csv", "slow", "count"))]
    child = children.start("engine", argv)
    schedule = Schedule(child, device_of(tmp_path), report, 3600, tmp_path / "log", Reporter(quiet=True))
    schedule.wait_until_reading()
    schedule.observed(observer, 4)
    schedule.finish()
    (window,) = schedule.windows()
    first, last = observer.seen
    assert window.seconds > 3.4
    assert window.counters.queries == pytest.approx(last - first, rel=0.15)
