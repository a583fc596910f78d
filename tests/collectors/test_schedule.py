"""A workload that ends on us, with a real process that writes a report as db_bench does: whose fault was it?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.counters import device_of
from collectors.queries import QueryReport
from collectors.schedule import Schedule
from ioflame.errors import MeasurementError
from ioflame.process import Child, Children
from ioflame.progress import Reporter

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
    report = QueryReport(tmp_path / "report.csv")
    return Schedule(child, device_of(tmp_path), report, LIFETIME, tmp_path / "log", Reporter(quiet=True))


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(LIFETIME, "this host is too busy"), (1, "it said last: these are my last words")],
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
