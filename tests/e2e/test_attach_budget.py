"""What our processes may take of CPU: a window that ends for it, an observer that runs away, and runs that are over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from tests.conftest import Ioflame
from tests.e2e.commands import attached, perf_that, service
from tests.recorded_run import Measured

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

# A budget is a part of what the target uses: on a busy host that must not be next to nothing. Linux shares out CPU by
# sessions first: in one of its own it has its part, and takes from the other tests no more than that.
_BURN = ["nice", "-n", "-15", sys.executable, "-c", "while True: sum(range(1000))"]


def watched(out: Path, *words: str, prefix: tuple[str, ...] = ()) -> Measured:
    """A process that burns CPU."""
    with service(_BURN, start_new_session=True) as process:
        return attached(out, [process.pid], *words, prefix=prefix)


def test_what_nothing_is_left_for_does_not_watch_and_the_start_is_in_the_account(tmp_path: Path) -> None:
    done = watched(tmp_path, "--seconds=5", "--collect=perf,null", "--budget=0.01%")
    assert [one.kind for one in done.record.unobserved] == ["perf", "null"]
    assert all(one.why.startswith("the budget of 0.01 % is used up: 0.0") for one in done.record.unobserved)
    assert done.record.target is not None and done.record.target.cost is not None
    assert done.record.target.cost.seconds["start"] > 0
    assert done.checks["budget"].verdict is Verdict.WARN


def test_a_window_ends_when_its_part_is_used_up(tmp_path: Path) -> None:
    # Many short processes, none of which comes to the bound of one.
    short = f"{sys.executable} -c 'sum(range(10**7))'"
    burns = perf_that(tmp_path / "bin", f'(trap "" INT TERM; while :; do {short}; done) &')
    # 1 % of twenty minutes is 12 s at most: less than half of what the window could take of one CPU.
    done = watched(tmp_path, "--per=20m", "--seconds=40", "--collect=perf", "--budget=1%", prefix=burns)
    assert done.record.unobserved == []
    assert [window.kind for window in done.record.windows] == ["plain", "perf", "plain"]
    check = done.checks["budget"]
    assert check.verdict is Verdict.WARN and "ended early for that: perf after" in check.value
    assert done.record.profile is not None and done.record.profile.samples > 0


def test_an_observer_that_runs_away_is_ended(tmp_path: Path) -> None:
    # Deaf to whoever asks it to end.
    deaf = "'import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\nwhile True: pass'"
    burns = perf_that(tmp_path / "bin", f"exec {sys.executable} -c {deaf}")
    done = watched(tmp_path, "--seconds=5", "--collect=perf", "--budget=100%", "--per=12s", prefix=burns)
    ran_away = done.record.unobserved[0]
    assert ran_away.kind == "perf" and "perf record ran away and was ended: " in ran_away.why


def test_after_two_runs_over_the_budget_watching_is_off(ioflame: Ioflame, tmp_path: Path) -> None:
    with service(_BURN, start_new_session=True) as process:
        words = ("--every=5s", "--for=5s", "--collect=null", "--budget=0.01%")
        code, _, err = ioflame.run("attach", f"--pid={process.pid}", f"--out={tmp_path}", *words)
        assert process.poll() is None
    assert code == 1 and "over the budget: " in err and "once more, and watching ends" in " ".join(err.split())
    assert "two runs in a row were over the budget" in err and "watching is off" in err
    assert len([path for path in tmp_path.glob("*/run.json") if not path.parent.is_symlink()]) == 2
