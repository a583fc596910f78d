from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from collectors.perf import Plan, Recording, plan_recording, record_for, recorded_events
from folding.stackfold import fold
from ground.errors import HostError, MeasurementError
from ground.system.process import Children
from tests.collectors.conftest import recording, until_burnt
from tests.e2e.commands import script
from tests.folding.recordings import ends_where_it_should

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]


@pytest.mark.parametrize("scope", ["process", "system"])
def test_a_window_is_recorded_and_nothing_before_or_after(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, scope: str
) -> None:
    data = tmp_path / "perf.data"
    with recording(children, burner.pid, data, scope) as perf:
        until_burnt(burner.pid, 0.1)  # the process runs, perf is started, nothing is sampled yet
        opened = time.monotonic_ns()
        perf.open()
        until_burnt(burner.pid, 0.3)
        perf.close()
        closed = time.monotonic_ns()
        until_burnt(burner.pid, 0.1)
    folded = fold(ends_where_it_should(data), tmp_path, [burner.pid], check="symbols")
    stats = folded.statistics
    assert recorded_events(data) == ["cpu-clock"]
    assert (stats.event, stats.unit) == ("cpu-clock", "ns")
    # One thread: it burns no more than the window is long; the second of the first sample and of the last are in it.
    assert 0 < stats.weight <= closed - opened
    assert folded.slices is not None
    starts = [folded.slices.start_ns + number * folded.slices.length_ns for number in folded.slices.slice]
    assert opened - folded.slices.length_ns < min(starts) and max(starts) < closed
    assert folded.check is not None, folded.unchecked
    (report,) = folded.check.events
    assert (report.folded, report.reported) == (stats.weight, stats.weight)


@pytest.mark.parametrize("scope", ["process", "system"])
def test_what_was_recorded_so_far_is_whole_while_perf_goes_on(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, scope: str
) -> None:
    data, turns = tmp_path / "perf.data", [tmp_path / "first", tmp_path / "second"]
    with recording(children, burner.pid, data, scope) as perf:
        for turn in turns:
            turn.mkdir()
            perf.open()
            until_burnt(burner.pid, 0.2)
            perf.close()
            perf.copy_so_far(turn / "perf.data")
    first, second = (fold(turn / "perf.data", turn, [burner.pid]).statistics for turn in turns)
    assert 0 < first.weight < second.weight
    assert recorded_events(turns[0] / "perf.data") == ["cpu-clock"]
    # Nothing was in a buffer still, and nothing has another name: the file that perf itself has ended is the same.
    assert fold(data, tmp_path, [burner.pid]).statistics.weight == second.weight
    assert (tmp_path / "stacks.folded").read_text() == (turns[1] / "stacks.folded").read_text()


def test_the_plan_names_an_event_that_the_host_really_counts(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path
) -> None:
    plan = plan_recording("auto", 499, "auto")
    record_for(children, plan, burner.pid, tmp_path / "perf.data", 0.3)
    assert recorded_events(tmp_path / "perf.data") == [plan.event]
    assert plan.event in ("cycles", "cpu-clock")
    assert plan.event == "cycles" or plan.why


def test_an_event_that_does_not_exist_is_refused_with_perfs_words() -> None:
    with pytest.raises(HostError, match="no-such-event") as caught:
        plan_recording("no-such-event", 99, "fp")
    assert caught.value.exit_code == 3


def test_an_event_that_is_several_is_refused_before_anything_is_measured() -> None:
    """As `cycles` is on a processor with cores of several kinds."""
    with pytest.raises(HostError, match="cpu-clock,page-faults is 2 events here: cpu-clock, page-faults"):
        plan_recording("cpu-clock,page-faults", 99, "fp")


def test_a_recording_that_cannot_write_says_so(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path
) -> None:
    plan = Plan("cpu-clock", 99, "process", "fp", ())
    perf = Recording(children, plan, [burner.pid], tmp_path / "no" / "perf.data", tmp_path / "log")
    perf.attach()
    with pytest.raises(MeasurementError, match=r"perf ended before it could enable \(exit code 255\): .*No such file"):
        perf.open()


def test_a_perf_that_hangs_is_given_up_and_keeps_what_it_has(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "perf.data"
    with (
        pytest.raises(MeasurementError, match="perf did not disable"),
        recording(children, burner.pid, data) as perf,
    ):
        perf.open()
        # Until then a busy host may have kept it from running for as long.
        monkeypatch.setattr("collectors.perf.QUIET_SECONDS", 2.0)
        (child,) = children
        os.kill(child.pid, signal.SIGSTOP)
        perf.close()
    assert not child.running
    assert recorded_events(data) == ["cpu-clock"]  # a file that is whole


def test_a_perf_behind_a_wrapper_is_ended_as_perf_is(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = script(tmp_path / "bin" / "perf", f'{shutil.which("perf")} "$@"\nexit $?')
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    with recording(children, burner.pid, tmp_path / "perf.data") as perf:
        perf.open()
        until_burnt(burner.pid, 0.1)
        perf.close()
    (child,) = children
    assert child.argv[0] == str(wrapper) and not child.running
    assert fold(tmp_path / "perf.data", tmp_path, [burner.pid]).statistics.samples > 0
