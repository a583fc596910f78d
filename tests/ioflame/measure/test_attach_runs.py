"""Runs of a target: what they may cost, which are kept, and what of them is hashed."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.files import Files
from ground.results.record import OwnCost, Target
from ground.results.redaction import Redaction
from ground.results.run import Run, open_run
from ground.system.process import Children
from ioflame.measure.attach.budget import (
    allowed_seconds,
    check_left,
    over_budget,
    runaway_error,
    runaway_limit,
)
from ioflame.measure.attach.continuous import keep_recent, keep_requests, parse_duration, remove_old
from ioflame.measure.attach.redact import forget_abandoned, hide_waits, without_words
from tests.records import run_record, window


def test_old_runs_of_a_target_are_removed_and_nobody_elses(tmp_path: Path) -> None:
    def made(name: str, asked: str | None, age: float) -> Path:
        target = None if asked is None else Target(asked, "p", [1])
        run = Run.create(tmp_path, run_record(name, target=target))
        os.utime(run.path(Files.RECORD), (time.time() - age,) * 2)
        return run.directory

    old, recent = made("old", "--pid 1", 7200), made("recent", "--pid 1", 60)
    saved, others, profile = made("saved", "--pid 1", 7200), made("others", "--pid 2", 7200), made("own", None, 7200)
    (saved / "kept").touch()
    (tmp_path / "latest").symlink_to(old.name)
    assert keep_recent(tmp_path, "--pid 1") == [recent.name]
    assert remove_old(tmp_path, "--pid 1", parse_duration("--keep", "1h")) == [old.name]
    assert [path.exists() for path in (old, recent, saved, others, profile)] == [False, True, True, True, True]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604_800)])
def test_lengths_of_time_have_the_units_of_people(text: str, seconds: float) -> None:
    assert parse_duration("--for", text) == seconds
    for none in ("0", "-5", "5w", "", "soon"):
        with pytest.raises(UsageError, match="--for"):
            parse_duration("--for", none)


def test_a_signal_asks_once_to_keep_runs_and_what_it_did_before_it_does_again() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with keep_requests() as requested:
        assert not requested()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert requested() and not requested()
    assert signal.getsignal(signal.SIGUSR1) is before


# ---- what watching may cost ------------------------------------------------------------------------------------------
HALF_A_CORE = [window("plain", 4.0, cpu_ns=2 * 10**9)]


def test_a_budget_is_a_part_of_what_the_target_uses() -> None:
    # 1 % of half a core over 600 s
    assert allowed_seconds(0.01, 600, HALF_A_CORE) == pytest.approx(3.0)
    cost = OwnCost({"perf": 2.5, "ebpf": 0.6}, 300.0, 0.01, period=600, allowed=3.0)
    check_left(cost, 0.1)
    with pytest.raises(MeasurementError, match=r"the budget of 1 % is used up: 3.00 s of CPU in 600 s \(perf 2.50 s"):
        check_left(cost, 0.0)
    assert (runaway_limit(1.2), runaway_limit(math.inf)) == (3, None)


def test_a_run_is_over_its_budget_by_all_that_it_took() -> None:
    cost = OwnCost({}, 300.0, 0.01, period=600, allowed=3.0)
    made = run_record("w", windows=HALF_A_CORE, target=Target("--pid 1", "p", [1], cost=cost))
    assert over_budget(made, 2.9) == "" and over_budget(run_record(), 1e9) == ""
    assert over_budget(made, 3.2) == "3.20 s of CPU; 3.00 s were allowed, 1 % of what the target uses in 600 s"


@pytest.mark.long
def test_an_observer_that_runs_away_is_ended_by_the_kernel_and_named() -> None:
    with Children() as children:
        children.cpu_limit = 1
        child = children.start("loops", [sys.executable, "-c", "while True: pass"])
        assert child.wait(60) is not None
        other = children.start("ends", ["true"])
        assert other.wait(60) == 0
        error = runaway_error([other, child], 1.5, 1.0)
        assert error is not None and "loops ran away and was ended: 1.5 s of CPU, where 1.00 s" in str(error)
        assert runaway_error([other], 1.5, 1.0) is None


# ---- names of the target's own ---------------------------------------------------------------------------------------
def test_of_an_observer_that_failed_its_words_are_hashed() -> None:
    told = without_words("perf", MeasurementError("/secret/server died", mend="see /secret"), Redaction())
    assert "perf failed" in str(told) and "secret" not in str(told)


def test_names_of_threads_that_wait_are_hashed_but_for_those_that_everybody_knows(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record("w"))
    hide_waits(run, Redaction())  # without such a window there is nothing to hide
    threads = [{"comm": "secret"}, {"comm": "rocksdb:low0"}]
    run.path(Files.OFF_CPU).write_text(json.dumps({"threads": threads, "pid": 7}))
    hide_waits(run, Redaction(threads=["rocksdb:low.*"]))
    found = json.loads(run.path(Files.OFF_CPU).read_text())
    assert "secret" not in str(found) and found["threads"][1] == threads[1] and found["pid"] == 7


def test_a_run_whose_watcher_was_killed_before_names_were_hashed_loses_all_that_holds_any(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record("w", target=Target("--pid 1", "p", [1])))
    other = Run.create(tmp_path, run_record("other", target=Target("--pid 1", "p", [1])))
    with Redaction().within(run.directory):
        for name in (Files.PERF_DATA, Files.SUMMARY):
            (run.directory / name).write_text("secret")
        assert forget_abandoned(tmp_path) == []  # somebody is at it
    (other.directory / Files.SUMMARY).write_text("hashed")
    assert forget_abandoned(tmp_path) == [str(run.directory)] and forget_abandoned(tmp_path / "none") == []
    assert [path.name for path in run.directory.iterdir()] == [Files.RECORD]
    target = open_run(run.directory).record.target
    assert target is not None and target.redacted
    assert (other.directory / Files.SUMMARY).exists() and forget_abandoned(tmp_path) == []
