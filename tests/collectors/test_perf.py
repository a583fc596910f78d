from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from collectors.perf import Plan, Recording, core_kinds, plan_recording, record_for, recorded_events
from folding.stackfold import fold
from ground.errors import HostError, MeasurementError
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter

pytestmark = pytest.mark.needs("perf")


def cpu_seconds(pid: int) -> float:
    """By the scheduler's own clock."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.alone
@pytest.mark.parametrize("scope", ["process", "system"])
def test_a_window_is_recorded_and_nothing_before_or_after(
    burner: subprocess.Popen[str], tmp_path: Path, scope: str
) -> None:
    plan = Plan("cpu-clock", 999, scope, "fp", ())
    data = tmp_path / "perf.data"
    with Children() as children:
        recording = Recording(children, plan, [burner.pid], data, tmp_path / "log")
        recording.attach()
        select.select([], [], [], 0.5)  # the process runs, perf is started, nothing is sampled yet
        begun = cpu_seconds(burner.pid)
        opened = time.monotonic_ns()
        recording.open()
        select.select([], [], [], 1.0)
        recording.close()
        closed = time.monotonic_ns()
        burnt = cpu_seconds(burner.pid) - begun
        select.select([], [], [], 0.5)
        recording.detach()
    folded = fold(data, tmp_path, [burner.pid], check="symbols")
    stats = folded.statistics
    assert recorded_events(data) == ["cpu-clock"]
    assert (stats.event, stats.unit) == ("cpu-clock", "ns")
    # What it burnt in the window, and not in the half second before and after it.
    assert 0.7 * burnt < stats.weight / 1e9 <= 1.05 * burnt
    # On the clock of the windows.
    assert folded.slices is not None
    last = folded.slices.start_ns + (folded.slices.slice[-1] + 1) * folded.slices.length_ns
    assert opened - 10**9 < folded.slices.start_ns < closed < last + 10**9
    assert folded.check is not None
    (report,) = folded.check.events
    assert (report.folded, report.reported, folded.check.lost_samples) == (stats.weight, stats.weight, 0)


def test_the_plan_names_an_event_that_the_host_really_counts(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    plan = plan_recording("auto", 499, "auto")
    with Children() as children:
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


def test_cores_of_several_kinds_are_told_by_their_counters(tmp_path: Path) -> None:
    for name in ("cpu_core/cpus", "software/type", "uncore_imc_0/cpumask"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("0-7\n")
    assert core_kinds(tmp_path) == []
    (tmp_path / "cpu_atom").mkdir()
    (tmp_path / "cpu_atom" / "cpus").write_text("8-11\n")
    assert core_kinds(tmp_path) == ["cpu_atom", "cpu_core"]


@pytest.mark.alone
def test_a_recording_with_build_ids_beside_it_is_named_where_perf_aborts_on_it(tmp_path: Path) -> None:
    # Alone, since it would end the recordings of other tests, too. The command starts once events are on.
    others = ["perf", "record", "-a", "-q", "-N", "--buildid-mmap", "-o", str(tmp_path / "others.data")]
    command = ["sh", "-c", "echo started; read end"]
    with subprocess.Popen(
        [*others, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"started\n"
        try:
            plan = plan_recording("page-faults", 99, "fp")
        except HostError as error:
            assert "aborts" in str(error) and "build-id.c" in str(error)
            assert "--buildid-mmap" in (error.means or "") and "pgrep" in (error.mend or "")
        else:
            assert plan.event == "page-faults"  # a kernel or a perf without the defect
        other.stdin.close()
        assert other.wait() == 1  # `read` saw the end: perf recorded until then
    assert plan_recording("page-faults", 99, "fp").event == "page-faults"


def test_a_recording_that_cannot_write_says_so(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    plan = Plan("cpu-clock", 99, "process", "fp", ())
    ended = r"perf ended before it could enable \(exit code 255\): .*No such file"
    with Children() as children, pytest.raises(MeasurementError, match=ended):
        recording = Recording(children, plan, [burner.pid], tmp_path / "no" / "perf.data", tmp_path / "log")
        recording.attach()
        recording.open()


def test_a_perf_that_hangs_is_given_up_and_keeps_what_it_has(
    burner: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "perf.data"
    with Children() as children:
        plan = Plan("cpu-clock", 99, "process", "fp", ())
        recording = Recording(children, plan, [burner.pid], data, tmp_path / "log")
        with pytest.raises(MeasurementError, match="perf did not disable"), attached(recording, Reporter(quiet=True)):
            recording.open()
            # Until then a busy host may have kept it from running for as long.
            monkeypatch.setattr("collectors.perf.QUIET_SECONDS", 0.5)
            (perf,) = children
            os.kill(perf.pid, signal.SIGSTOP)
            recording.close()
        assert not perf.running
    assert recorded_events(data) == ["cpu-clock"]  # a file that is whole


def test_a_perf_behind_a_wrapper_is_ended_as_perf_is(
    burner: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "bin" / "perf"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{shutil.which("perf")} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    with Children() as children:
        record_for(children, Plan("cpu-clock", 999, "process", "fp", ()), burner.pid, tmp_path / "perf.data", 0.3)
        (perf,) = children
        assert perf.argv[0] == str(wrapper) and not perf.running
    assert fold(tmp_path / "perf.data", tmp_path, [burner.pid]).statistics.samples > 0
