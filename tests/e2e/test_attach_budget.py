"""What our processes may take of CPU: a window that ends for it, an observer that runs away, and runs that are over."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ground.results.checks import Check, Verdict
from ground.results.run import Run, open_run
from tests.conftest import Ioflame
from tests.e2e.test_attach import service

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

_BURN = [sys.executable, "-c", "while True: sum(range(1000))"]
# Beside a perf that records as it should, or in its place, deaf to whoever asks it to end.
_BESIDE = '{burn} & exec {perf} "$@"'
_INSTEAD = "exec {burn}"
_DEAF = "'import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\nwhile True: pass'"


def watched(ioflame: Ioflame, out: Path, *words: str, prefix: tuple[str, ...] = ()) -> tuple[int, str, Run]:
    with service(_BURN) as process:
        given = ("attach", f"--pid={process.pid}", "--seconds=5", f"--out={out}", *words)
        code, said, err = ioflame.run(*given, prefix=prefix)
    return code, said + err, open_run((out / "latest").resolve())


def burning_perf(place: Path, how: str) -> tuple[str, ...]:
    """Before a command line: its perf burns CPU when it is to record a window."""
    perf = shutil.which("perf")
    body = how.format(burn=f"{sys.executable} -c {_DEAF}", perf=perf)
    (place / "bin").mkdir()
    script = place / "bin" / "perf"
    script.write_text(f'#!/bin/sh\ncase "$*" in *--control*) {body};; esac\nexec {perf} "$@"\n', encoding="ascii")
    script.chmod(0o755)
    return ("env", f"PATH={script.parent}:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")


def budget_check(run: Run) -> Check:
    return next(check for check in run.record.checks if check.name == "budget")


def test_what_nothing_is_left_for_does_not_watch_and_the_start_is_in_the_account(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    code, said, run = watched(ioflame, tmp_path, "--collect=perf,null", "--budget=0.01%")
    assert [one.kind for one in run.record.unobserved] == ["perf", "null"], said
    assert all(
        one.why.startswith("the budget of 0.01 % is used up: 0.00 s of CPU in 5 s") for one in run.record.unobserved
    )
    assert run.record.target is not None and run.record.target.cost is not None
    assert run.record.target.cost.seconds["start"] > 0.05
    assert budget_check(run).verdict is Verdict.WARN and code in (0, 1)
    # Of ten days of the target's CPU it is enough.
    code, said, run = watched(ioflame, tmp_path, "--collect=null", "--budget=0.01%", "--per=10d")
    assert (code, run.record.unobserved, budget_check(run).verdict) == (0, [], Verdict.OK), said


def test_a_window_ends_when_its_part_is_used_up(ioflame: Ioflame, tmp_path: Path) -> None:
    words = ("--seconds=120", "--collect=perf", "--budget=2%")
    with service(_BURN) as process:
        given = ("attach", f"--pid={process.pid}", f"--out={tmp_path}", "--per=5m", *words)
        code, said, err = ioflame.run(*given, prefix=burning_perf(tmp_path, _BESIDE))
    run = open_run((tmp_path / "latest").resolve())
    assert run.record.unobserved == [], said + err
    assert [window.kind for window in run.record.windows] == ["plain", "perf", "plain"]
    assert run.record.windows[1].seconds < 30
    check = budget_check(run)
    assert check.verdict is Verdict.WARN and "ended early for that: perf after" in check.value
    assert run.record.profile is not None and run.record.profile.samples > 0 and code in (0, 1)


@pytest.mark.alone
def test_an_observer_that_runs_away_is_ended(ioflame: Ioflame, tmp_path: Path) -> None:
    words = ("--collect=perf,null", "--budget=100%", "--per=6s")
    _, said, run = watched(ioflame, tmp_path, *words, prefix=burning_perf(tmp_path, _INSTEAD))
    ran_away = run.record.unobserved[0]
    assert ran_away.kind == "perf" and "perf record ran away and was ended: " in ran_away.why, said
    assert not ioflame.left_behind()


def test_after_two_runs_over_the_budget_watching_is_off(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(_BURN) as process:
        words = ("--every=5s", "--for=5s", "--collect=null", "--budget=0.01%")
        code, _, err = ioflame.run("attach", f"--pid={process.pid}", f"--out={tmp_path}", *words)
        assert process.poll() is None
    assert code == 1 and "over the budget: " in err and "once more, and watching ends" in " ".join(err.split())
    assert "two runs in a row were over the budget" in err and "watching is off" in err
    assert len([path for path in tmp_path.glob("*/run.json") if not path.parent.is_symlink()]) == 2
