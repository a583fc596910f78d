"""The samplers as observers, and gdb's ways: on real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from collectors.gdb_stacks import frame_name, stacks_by_thread
from collectors.pmp import PmpPlan, Sampling, sampler_named
from collectors.pmp_checks import pmp_checks
from folding.pmp import fold_pmp
from ground.errors import HostError, UsageError
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.pmp import Pmp, read_pmp
from ground.results.states import SAMPLED_FRAMES
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.collectors.conftest import StartThreads, thread_states
from tests.until import until

pytestmark = pytest.mark.slow


def sample(plan: PmpPlan, pid: int, directory: Path, seconds: float) -> Pmp:
    with Children() as children:
        sampling = Sampling(children, plan, pid, directory)
        with attached(sampling, Reporter(quiet=True)):
            sampling.open()
            sampling.wait(seconds)
            sampling.close()
    return read_pmp(directory)


def folded(directory: Path) -> dict[str, int]:
    stacks: Counter[str] = Counter()
    for line in (directory / Files.PMP_FOLDED).read_text(errors="replace").splitlines():
        stack, _, weight = line.rpartition(" ")
        stacks[stack] += int(weight)
    return dict(stacks)


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("plan", [PmpPlan(hz=20), PmpPlan("gdb", hz=2, force=True)], ids=["stacksampler", "gdb"])
def test_every_sampler_leaves_the_same_kinds_of_things(threads: StartThreads, tmp_path: Path, plan: PmpPlan) -> None:
    target = threads("mixed")
    pmp = sample(plan, target.pid, tmp_path, 2.0)
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
    stacks = folded(tmp_path)
    assert sum(stacks.values()) == pmp.weight_ns
    # gdb -readnever reads no unwind tables and guesses: it may miss wait_for_lock itself.
    lock = ";wait_for_lock;" if plan.sampler == "stacksampler" else ";pthread_mutex_lock;"
    assert any(lock in stack and stack.endswith(";sleeping_[S]") for stack in stacks)
    assert any(stack.endswith(";burn;running_[R]") for stack in stacks)
    assert {stack.partition(";")[0] for stack in stacks} == {
        "a:b_c_d)_R_1",
        "\ufffd\ufffd_hot",
        "Thread_9_(LWP_1",
        "threads",
    }
    assert pmp.activity is not None and pmp.activity.switches >= pmp.activity.voluntary_switches >= 0
    assert not set(thread_states(target.pid).values()) & {"t", "T"}


def test_a_process_that_ends_in_the_window_leaves_what_was_sampled(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 4)
    with Children() as children:
        sampling = Sampling(children, PmpPlan(hz=100), target.pid, tmp_path)
        sampling.attach()
        sampling.open()
        sampling.wait(0.3)
        target.kill()
        target.wait()
        sampling.wait(20)
        sampling.close()
        sampling.detach()
    assert read_pmp(tmp_path).end == "target ended"
    assert fold_pmp(tmp_path, "rocksdb").statistics.weight > 0


def test_a_sampler_that_is_ended_in_its_window_is_a_failed_check(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 4)
    with Children() as children:
        sampling = Sampling(children, PmpPlan(hz=100), target.pid, tmp_path)
        with attached(sampling, Reporter(quiet=True)):
            sampling.open()
            (sampler,) = children
            os.kill(sampler.pid, signal.SIGTERM)
            sampling.wait(60)
            sampling.close()
    (check,) = [check for check in pmp_checks(read_pmp(tmp_path)) if check.name == "pmp window"]
    assert check.verdict == Verdict.FAILED and "a signal ended stacksampler" in check.value


def test_a_process_without_its_first_thread_is_sampled(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("leaderless")
    until(lambda: thread_states(target.pid)[target.pid] == "Z")
    pmp = sample(PmpPlan(hz=50), target.pid, tmp_path, 0.5)
    assert pmp.end == "closed" and pmp.states.keys() == {"R"}
    if shutil.which("gdb"):
        with Children() as children, pytest.raises(HostError, match="the first thread of process") as caught:
            Sampling(children, PmpPlan("gdb", hz=1), target.pid, tmp_path).attach()
        assert caught.value.mend == "--sampler stacksampler"


@pytest.mark.needs("gdb")
def test_gdb_is_refused_where_its_stop_may_kill(calls_binary: Path, tmp_path: Path) -> None:
    with subprocess.Popen([str(calls_binary), "filtered", "600"], stdout=subprocess.PIPE) as target:
        assert target.stdout is not None and target.stdout.readline() == b"ready\n"
        try:
            with Children() as children, pytest.raises(HostError, match="seccomp filters") as caught:
                Sampling(children, PmpPlan("gdb", hz=1), target.pid, tmp_path).attach()
        finally:
            target.terminate()
            target.communicate()
    assert "--force" in caught.value.mend
    # The filter would have killed it.
    assert target.returncode == 0


def test_a_failure_has_the_samplers_own_words(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Children() as children:
        sampling = Sampling(children, PmpPlan(), gone.pid, tmp_path)
        with pytest.raises(UsageError, match=f"there is no process {gone.pid}") as caught:
            sampling.attach()
        assert "see ps" in caught.value.mend
    with pytest.raises(UsageError, match="--sampler pstack is not known"):
        sampler_named("pstack")


@pytest.mark.needs("gdb")
def test_gdb_is_refused_with_the_pause_that_was_measured(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 4)
    with Children() as children:
        sampling = Sampling(children, PmpPlan("gdb", hz=1, budget_ms=0.001), target.pid, tmp_path)
        with pytest.raises(HostError, match=r"stops the whole of process \d+ for \d+ ms a sample") as caught:
            sampling.attach()
    assert "--force" in caught.value.mend
    with Children() as children:
        sampling = Sampling(children, PmpPlan("gdb", hz=1000, budget_ms=1e6), target.pid, tmp_path)
        with pytest.raises(UsageError, match="it would be stopped"):
            sampling.attach()
    assert not set(thread_states(target.pid).values()) & {"t", "T"}


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_while_gdb_holds_the_process_it_lets_it_go_first(
    threads: StartThreads, tmp_path: Path, signum: signal.Signals
) -> None:
    target = threads("crowd", 8)
    with Children() as children:
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


@pytest.mark.needs("gdb")
def test_gdb_does_not_let_a_stopped_process_go_on(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 2)
    target.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, target.pid, os.WSTOPPED | os.WNOWAIT)
    with Children() as children, pytest.raises(HostError, match="is stopped already"):
        Sampling(children, PmpPlan("gdb", hz=1), target.pid, tmp_path).attach()
    assert set(thread_states(target.pid).values()) == {"T"}
    target.send_signal(signal.SIGCONT)


def test_gdbs_text_is_read_whatever_stands_in_it() -> None:
    text = (
        b"[New LWP 11]\nwarning: Unable to find libthread_db\n"
        b'Thread 2 (Thread 0x7f01 (LWP 11) "a;b\nThread 9 (LWP 1"):\n'
        b"#0  0x00007f in read () from /lib/x/libc.so.6\n"
        b"#1  0x00007f in ns::Class<int>::run(std::vector<int>&) const () from /lib/librocksdb.so.7\n"
        b"#2  0x00007f in ?? () from /lib/a;b.so\n#3  0x01 in ?? ()\n\n"
        b'Thread 1 (process 10 "\xff"):\n#0  main (argc=1, argv=0x1) at main.c:3\n(More stack frames follow...)\n'
        b"Thread 3 (LWP 12):\n"
    )
    assert stacks_by_thread(text, {10, 11, 12}) == {
        11: [b"[unknown]", b"[a:b.so]", b"ns::Class<int>::run", b"read"],
        10: [b"main"],
    }
    assert stacks_by_thread(b"", {1}) == {}
    assert frame_name(b"operator() (this=0x0) at x.cc:1") == b"operator()"
    assert frame_name(b"f((anonymous namespace)::T) () from /x") == b"f"
    assert frame_name(b"(anonymous namespace)::g(int) () from /x") == b"(anonymous namespace)::g"


def test_the_command_line_refuses_a_number_that_no_process_has(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ioflame.cli", "pmp", "--pid=99999999999", f"--out={tmp_path / 'runs'}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--pid: there is no process 99999999999: numbers of processes are" in done.stderr
    assert not any(tmp_path.iterdir())


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


@pytest.mark.needs("gdb")
def test_the_command_line_prints_both_results_as_one_object(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("mixed")
    argv = [sys.executable, "-m", "ioflame.cli", "pmp", f"--pid={target.pid}", "--seconds=1", "--hz=50", "--json"]
    done = subprocess.run([*argv, f"--out={tmp_path}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    waiting = {site["place"]: site["waiting"]["samples"] for site in found["locks"]["sites"]}
    assert waiting["wait_for_lock"] > 0
    assert found["locks"]["total"]["weight_ns"] == found["pmp"]["weight_ns"]
    (directory,) = tmp_path.iterdir()
    for name in (Files.PMP, Files.LOCKS, Files.PMP_FOLDED, Files.PMP_FLAMEGRAPH, Files.PMP_DATA):
        assert (directory / name).stat().st_size > 0
