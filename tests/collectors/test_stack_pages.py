"""Stacks with a page that was never written to: perf copies them only once they are in memory whole."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.perf import COPIED_BYTES
from collectors.stack_pages import touch_stacks
from folding.stackfold import fold, stackfold_binary
from ground.results.profile import FoldStats
from ground.system.binaries import built_binary
from ground.system.held_process import HeldProcess
from ground.system.process import Children
from tests.collectors.conftest import StartThreads, recording, thread_states, until_burnt
from tests.folding.recordings import record_while_it_runs

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]


def perf_record(pid: int, data: Path) -> None:
    graph = ["-N", "-e", "cpu-clock", "-F", "999", "--call-graph", f"dwarf,{COPIED_BYTES}", "-p", str(pid)]
    # The first thread sleeps.
    record_while_it_runs(data, graph, *(tid for tid in thread_states(pid) if tid != pid))


def by_touching_what_waits(pid: int, _: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("collectors.stack_pages._beginnings", lambda _: [])
        # Of a thread that waits for a CPU it is not known where its stack is.
        target = HeldProcess(pid)
        target.stop()
        touch_stacks(pid, COPIED_BYTES)
        target.go_on()


def by_touching_what_runs(pid: int, _: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        # As of threads that never wait, or get no CPU to go to sleep on.
        patched.setattr("collectors.stack_pages._stack_pointers", lambda _: [])
        touch_stacks(pid, COPIED_BYTES)


def by_the_command_that_stackfold_advises(pid: int, data: Path) -> None:
    told = subprocess.run([stackfold_binary(), str(data)], capture_output=True, text=True, check=True).stderr
    (advice,) = [line for line in told.splitlines() if "stacksampler" in line]
    assert "a page never written to" in advice
    words = advice.partition("(")[2].partition(")")[0].replace("PID", str(pid)).split()
    subprocess.run([str(built_binary("stacksampler")), *words[1:]], check=True, capture_output=True)


@pytest.mark.parametrize("mend", [by_touching_what_waits, by_touching_what_runs, by_the_command_that_stackfold_advises])
def test_a_page_never_written_to_cuts_copies_until_it_was_read(
    threads: StartThreads, tmp_path: Path, mend: Callable[[int, Path], None]
) -> None:
    pid = threads("hollow", 2).pid

    def recorded() -> FoldStats:
        perf_record(pid, tmp_path / "perf.data")
        stats = fold(tmp_path / "perf.data", tmp_path, [pid]).statistics
        assert stats.samples > 0 and stats.cut_copies.by_size == 0
        return stats

    cut = recorded()
    assert cut.cut_copies.by_page > 0.99 * cut.weight and cut.cut_copies.bytes == COPIED_BYTES
    assert cut.incomplete_weight > 0.99 * cut.weight
    mend(pid, tmp_path / "perf.data")
    whole = recorded()
    assert (whole.cut_copies.by_page, whole.incomplete_weight) == (0, 0)


def test_our_own_recordings_have_whole_stacks(threads: StartThreads, children: Children, tmp_path: Path) -> None:
    pid = threads("hollow", 2).pid
    with recording(children, pid, tmp_path / "perf.data", callgraph="dwarf") as perf:
        perf.open()
        until_burnt(pid, 0.1)
        perf.close()
    stats = fold(tmp_path / "perf.data", tmp_path, [pid]).statistics
    assert stats.samples > 0
    assert (stats.cut_copies.by_page, stats.cut_copies.by_size, stats.incomplete_weight) == (0, 0, 0)
