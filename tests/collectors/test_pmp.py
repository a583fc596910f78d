"""The samplers as observers: on real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.pmp import Sampling
from collectors.pmp_plan import PmpPlan
from folding.pmp import fold_pmp
from ground.errors import HostError, UsageError
from ground.results.files import Files
from ground.results.pmp import read_pmp
from ground.results.states import SAMPLED_FRAMES
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.cli import main
from tests.collectors.conftest import StartThreads, thread_states
from tests.collectors.sampler import in_text
from tests.until import until

pytestmark = pytest.mark.long


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("plan", [PmpPlan(hz=50), PmpPlan("gdb", hz=2, force=True)], ids=["stacksampler", "gdb"])
def test_every_sampler_leaves_the_same_kinds_of_things(
    threads: StartThreads, children: Children, tmp_path: Path, plan: PmpPlan
) -> None:
    target = threads("mixed")
    with attached(Sampling(children, plan, target.pid, tmp_path), Reporter(quiet=True)) as sampling:
        sampling.open()
        # Until each thread was looked at, by gdb twice.
        if plan.sampler == "gdb":
            for stopped in (True, False, True, False):
                until(lambda: ("t" in thread_states(target.pid).values()) == stopped, every=0.001)  # noqa: B023
        else:
            until(lambda: (tmp_path / Files.PMP_SAMPLES).stat().st_size >= 1 << 14)
        sampling.close()
    pmp = read_pmp(tmp_path)
    profile = fold_pmp(tmp_path, "rocksdb")
    told = {stack.state for stack in profile.each_stack()}
    assert {"running_[R]", "sleeping_[S]"} <= told <= set(SAMPLED_FRAMES.values())
    assert not told & set(profile.names), "a state is no frame"
    assert (pmp.sampler, pmp.pid, pmp.end) == (plan.sampler, target.pid, "closed")
    assert pmp.whole_process == (plan.sampler == "gdb")
    window = pmp.end_ns - pmp.start_ns
    assert len(pmp.threads) == 4 and all(0 < thread.weight_ns <= window for thread in pmp.threads)
    assert sum(tally.weight_ns for tally in pmp.states.values()) == pmp.weight_ns
    assert pmp.held.n >= pmp.rounds > 0 and pmp.held.p50_ns <= pmp.held.max_ns
    assert pmp.unseen == 0 and pmp.reached_hz == pytest.approx(pmp.samples / 4 / pmp.seconds)
    stacks = in_text((tmp_path / Files.PMP_FOLDED).read_bytes())
    assert sum(stacks.values()) == pmp.weight_ns
    # gdb -readnever reads no unwind tables and guesses: it may miss wait_for_lock itself.
    lock = ";wait_for_lock;" if plan.sampler == "stacksampler" else ";pthread_mutex_lock;"
    assert any(lock in stack and stack.endswith(";sleeping_[S]") for stack in stacks)
    assert any(stack.endswith(";burn;running_[R]") for stack in stacks)
    names = {"a:b_c_d)_R_1", "\ufffd\ufffd_hot", "Thread_9_(LWP_1", "threads"}
    assert {stack.partition(";")[0] for stack in stacks} == names
    assert pmp.activity is not None and pmp.activity.switches >= pmp.activity.voluntary_switches >= 0
    assert not set(thread_states(target.pid).values()) & {"t", "T"}


def refused(plan: PmpPlan, pid: int, place: Path, words: str) -> str:
    """What mends it."""
    before = set(thread_states(pid).values())
    with Children() as children, pytest.raises((HostError, UsageError), match=words) as caught:
        Sampling(children, plan, pid, place).attach()
    # Nobody is left stopped, or let go on.
    assert (set(thread_states(pid).values()) & {"t", "T"}) == (before & {"T"})
    return caught.value.mend


def test_samples_of_turns_have_the_weight_of_turns(threads: StartThreads, children: Children, tmp_path: Path) -> None:
    target = threads("mixed")
    lines = tmp_path / Files.PMP_SAMPLES
    observer = Sampling(children, PmpPlan(hz=50), target.pid, tmp_path, turns=True)
    with attached(observer, Reporter(quiet=True)) as sampling:
        for turn in range(3):
            sampling.open()
            until(lambda: lines.stat().st_size >= (turn + 1) << 14)  # noqa: B023
            sampling.close()
            assert not {"t", "T"} & set(thread_states(target.pid).values())
    pmp = read_pmp(tmp_path)
    assert len(pmp.turns) == 3 and (pmp.start_ns, pmp.end_ns) == (pmp.turns[0][0], pmp.turns[-1][1])
    samples = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(samples) == pmp.samples and sum(one["weight_ns"] for one in samples) == pmp.weight_ns
    for start, end in pmp.turns:
        of_turn = [one for one in samples if start <= one["t_ns"] <= end]
        for tid in {one["tid"] for one in of_turn}:
            # From the turn's beginning to the thread's last sample in it, and none of the time before.
            own = [one for one in of_turn if one["tid"] == tid]
            assert sum(one["weight_ns"] for one in own) == own[-1]["t_ns"] - start
    assert all(any(start <= one["t_ns"] <= end for start, end in pmp.turns) for one in samples)
    assert pmp.activity is not None and pmp.activity.seconds >= pmp.seconds and pmp.unseen == 0


@pytest.mark.needs("gdb")
def test_gdb_is_refused_with_the_pause_that_was_measured_and_of_what_is_stopped(
    threads: StartThreads, tmp_path: Path
) -> None:
    target = threads("crowd", 4)
    words = r"stops the whole of process \d+ for \d+ ms a sample"
    assert "--force" in refused(PmpPlan("gdb", hz=1, budget_ms=0.001), target.pid, tmp_path, words)
    refused(PmpPlan("gdb", hz=1000, budget_ms=1e6), target.pid, tmp_path, "it would be stopped")
    target.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, target.pid, os.WSTOPPED | os.WNOWAIT)
    refused(PmpPlan("gdb", hz=1), target.pid, tmp_path, "is stopped already")
    target.send_signal(signal.SIGCONT)


@pytest.mark.needs("gdb")
def test_gdb_is_refused_where_it_may_kill_or_knows_no_thread(
    calls_binary: Path, threads: StartThreads, tmp_path: Path
) -> None:
    with subprocess.Popen([str(calls_binary), "filtered", "600"], stdout=subprocess.PIPE) as target:
        assert target.stdout is not None and target.stdout.readline() == b"ready\n"
        try:
            assert "--force" in refused(PmpPlan("gdb", hz=1), target.pid, tmp_path, "seccomp filters")
        finally:
            target.terminate()
            target.communicate()
    # The filter would have killed it.
    assert target.returncode == 0
    leaderless = threads("leaderless").pid
    until(lambda: thread_states(leaderless)[leaderless] == "Z")
    words = "the first thread of process"
    assert refused(PmpPlan("gdb", hz=1), leaderless, tmp_path, words) == "--sampler stacksampler"


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_while_gdb_holds_the_process_it_lets_it_go_first(
    threads: StartThreads, children: Children, tmp_path: Path, signum: signal.Signals
) -> None:
    target = threads("crowd", 8)
    sampling = Sampling(children, PmpPlan("gdb", hz=50, force=True), target.pid, tmp_path)
    sampling.attach()
    sampling.open()
    (loop,) = children
    until(lambda: "t" in thread_states(target.pid).values(), as_long_as=lambda: loop.running, every=0.001)
    os.kill(loop.pid, signum)
    sampling.wait(60)
    assert loop.returncode == 0
    assert not set(thread_states(target.pid).values()) & {"t", "T"}
    sampling.detach()
    assert read_pmp(tmp_path).end == "signal"


def test_the_command_line_fails_where_its_sampler_was_ended(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 8)
    argv = [sys.executable, "-m", "ioflame.cli", "pmp", f"--pid={target.pid}", "--seconds=600", "--hz=200", "-q"]
    with subprocess.Popen(
        [*argv, f"--out={tmp_path}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as ioflame:
        until(lambda: any(data.stat().st_size > 1 << 20 for data in tmp_path.glob(f"*/{Files.PMP_DATA}")), ioflame)
        children = Path(f"/proc/{ioflame.pid}/task/{ioflame.pid}/children").read_text().split()
        (sampler,) = children
        os.kill(int(sampler), signal.SIGTERM)
        _, errors = ioflame.communicate()
    assert ioflame.returncode == 1 and "a signal ended stacksampler after" in errors


def test_the_command_line_prints_both_results_as_one_object(
    threads: StartThreads, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = threads("mixed")
    words = [f"--pid={target.pid}", "--seconds=2", "--hz=50", "--json", f"--out={tmp_path}"]
    assert main(["pmp", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    waiting = {site["place"]: site["waiting"]["samples"] for site in found["locks"]["sites"]}
    assert waiting["wait_for_lock"] > 0
    assert found["locks"]["total"]["weight_ns"] == found["pmp"]["weight_ns"]
    (directory,) = tmp_path.iterdir()
    for name in (Files.PMP, Files.LOCKS, Files.PMP_FOLDED, Files.PMP_FLAMEGRAPH, Files.PMP_DATA):
        assert (directory / name).stat().st_size > 0
