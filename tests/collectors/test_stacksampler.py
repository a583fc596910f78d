"""The Rust sampler on real processes: what it sees, that none of them notices it, and that nobody is left stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from folding.stackfold import stackfold_binary
from ground.system.binaries import built_binary
from tests.collectors.conftest import StartThreads, thread_states
from tests.collectors.sampler import Sampler, not_stopped, sampled, with_frame
from tests.until import until

pytestmark = pytest.mark.long


@pytest.mark.parametrize("callgraph", ["fp", "dwarf"])
def test_each_thread_is_seen_where_it_is_and_as_it_is(threads: StartThreads, tmp_path: Path, callgraph: str) -> None:
    target = threads("mixed")
    until(lambda: sorted(thread_states(target.pid).values()) == ["R", "S", "S", "S"])
    sampler = sampled(target.pid, tmp_path, f"--callgraph={callgraph}")
    stacks, stats = sampler.folded(), sampler.stats
    assert stats["end"] == "signal"
    # Names that look like parts of a stack are one frame each.
    names = {"a;b\nc d) R 1", "\ufffd\ufffd hot", "Thread 9 (LWP 1", "threads"}
    assert {thread["name"] for thread in stats["threads"]} == names
    frames = {"a:b_c_d)_R_1", "\ufffd\ufffd_hot", "Thread_9_(LWP_1", "threads"}
    assert {stack.partition(";")[0] for stack in stacks} == frames
    # Each sample weighs the time since the thread's last one: never more than the window, whatever the load.
    window = stats["end_ns"] - stats["start_ns"]
    for thread in stats["threads"]:
        assert 0 < thread["weight_ns"] <= window
    assert sum(stacks.values()) == stats["weight_ns"] == sum(t["weight_ns"] for t in stats["threads"])
    lines = [json.loads(line) for line in sampler.samples_file.read_text().splitlines()]
    assert sum(line["weight_ns"] for line in lines) == stats["weight_ns"] and len(lines) == stats["samples"]

    # Who waits for a lock sleeps in the futex of the kernel. Frame pointers lose the caller of a function without one.
    own = {"fp": ("sleeping_[S]", "sleeping_[S]"), "dwarf": ("wait_for_lock", "read_pipe")}[callgraph]
    locked = {stack: weight for stack, weight in with_frame(stacks, own[0]).items() if "a:b" in stack}
    assert locked and all(stack.endswith(";sleeping_[S]") for stack in locked)
    if os.geteuid() == 0:
        assert all("futex" in stack and "_[k]" in stack for stack in locked), locked
    # Who burns is running all the time, and so is nobody else: a stop wakes a thread, but does not make it run.
    burning = {stack: weight for stack, weight in stacks.items() if stack.startswith("\ufffd\ufffd_hot")}
    assert with_frame(burning, "burn") and all(stack.endswith(";running_[R]") for stack in burning)
    # On a busy host a thread may get no CPU to stop on, and is seen as it was woken.
    assert stats["states"]["R"]["weight_ns"] == sum(burning.values()) or stats["lacking"]["did_not_stop"]
    reading = {stack for stack in with_frame(stacks, own[1]) if "Thread_9" in stack}
    assert reading and all(stack.endswith(";sleeping_[S]") for stack in reading)
    assert not_stopped(target.pid)


@pytest.mark.needs("perf")
def test_perf_report_finds_the_same_weights(threads: StartThreads, tmp_path: Path) -> None:
    sampler = sampled(threads("crowd", 4).pid, tmp_path, "--callgraph=fp")
    done = subprocess.run([stackfold_binary(), "check", str(sampler.data)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wall-clock: total equal" in done.stdout


def test_a_signal_leaves_whole_files_and_fails_what_was_ordered(threads: StartThreads, tmp_path: Path) -> None:
    """Without seconds it is how a window ends: `sampled`."""
    target = threads("crowd", 8)
    sampler = Sampler(target.pid, tmp_path, "--hz=500", "--seconds=3600")
    sampler.until_open()
    sampler.process.send_signal(signal.SIGINT)
    code, words = sampler.end()
    assert code == 1 and "a signal ended it after" in words and f"is in {sampler.data}" in words
    assert sampler.stats["end"] == "signal" and not_stopped(target.pid)


def test_a_killed_sampler_leaves_nobody_stopped(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 16)
    chance = random.Random(5)
    for _ in range(20):
        sampler = Sampler(target.pid, tmp_path, "--hz=1000")
        sampler.until_open()
        time.sleep(chance.uniform(0, 0.02))  # anywhere within its rounds: that is the point
        sampler.process.kill()
        assert sampler.end()[0] == -signal.SIGKILL
        assert not_stopped(target.pid)
    # What is left of the file is read as far as it goes.
    done = subprocess.run([stackfold_binary(), "-q", str(sampler.data)], capture_output=True, check=False)
    assert done.returncode == 1


def test_a_target_that_dies_ends_the_sampling(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 8)
    sampler = Sampler(target.pid, tmp_path, "--hz=200")
    sampler.until_open()
    sampler.until_sampled()
    target.kill()
    assert sampler.end() == (0, "")
    assert sampler.stats["end"] == "target ended" and sampler.stats["samples"] > 0
    assert sampler.folded()


def test_threads_that_come_and_go_are_survived(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("churn", 64)
    stats = sampled(target.pid, tmp_path).stats
    assert len(stats["threads"]) > 64
    window = stats["end_ns"] - stats["start_ns"]
    assert all(thread["weight_ns"] <= window for thread in stats["threads"])
    assert target.poll() is None and not_stopped(target.pid)


def test_a_stopped_process_stays_stopped(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("crowd", 4)
    target.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, target.pid, os.WSTOPPED | os.WNOWAIT)
    sampler = sampled(target.pid, tmp_path)
    # Who is stopped on the way to a stop of ours is seen running where that takes its time; at first none was.
    lines = [json.loads(line) for line in sampler.samples_file.read_text().splitlines()]
    assert {line["tid"]: line["state"] for line in reversed(lines)} == dict.fromkeys(thread_states(target.pid), "T")
    # Released by us, a thread takes a moment of a CPU to be stopped again.
    until(lambda: set(thread_states(target.pid).values()) == {"T"})
    assert with_frame(sampler.folded(), "one_of_many")
    target.send_signal(signal.SIGCONT)


def test_a_system_call_that_a_stop_would_break_is_left_alone(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("epoll")
    until(lambda: {*thread_states(target.pid).values()} == {"S"})
    sampler = sampled(target.pid, tmp_path)
    assert target.poll() is None  # it ends with 7 at EINTR
    stats = sampler.stats
    waiting = next(thread for thread in stats["threads"] if thread["name"] == "epoll")
    assert 0 < stats["lacking"]["left_alone"] == waiting["samples"]
    assert any("epoll" in stack for stack in sampler.folded())


def test_a_process_goes_on_when_its_first_thread_has_ended(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("leaderless")
    until(lambda: thread_states(target.pid)[target.pid] == "Z")
    sampler = sampled(target.pid, tmp_path)
    stats = sampler.stats
    assert len(stats["threads"]) == 1
    assert stats["lacking"]["ended"] == 0
    folded = sampler.folded()
    burning = with_frame(folded, "burn")
    # A thread that gets no CPU to stop on is a sample of its state alone, and counted.
    assert burning and {stack.count(";") for stack in folded.keys() - burning.keys()} <= {1}
    assert (folded.keys() != burning.keys()) == (stats["lacking"]["did_not_stop"] > 0)


def test_the_files_are_their_owners_alone_whatever_the_umask(threads: StartThreads, tmp_path: Path) -> None:
    # One that was there keeps its mode where it is only opened.
    (tmp_path / "stats.json").touch(mode=0o666)
    (tmp_path / "stats.json").chmod(0o666)
    prefix = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    sampler = Sampler(threads("mixed").pid, tmp_path, "--hz=100", "--seconds=0.1", prefix=prefix)
    assert sampler.end() == (0, "") and sampler.stats["end"] == "time"
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert modes == {"pmp.data": "0o600", "stats.json": "0o600", "samples.jsonl": "0o600"}


def test_what_cannot_be_sampled_is_refused_with_what_mends_it(threads: StartThreads, tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for number in (gone.pid, 99_999_999_999, 4_294_967_295, -4):
        code, words = Sampler(number, tmp_path).end()
        assert (code, words.splitlines()[0]) == (2, f"stacksampler: there is no process {number}")
    code, words = Sampler(2, tmp_path).end()
    assert code in (2, 3), words
    target = threads("crowd", 2)
    tid = next(tid for tid in thread_states(target.pid) if tid != target.pid)
    code, words = Sampler(tid, tmp_path).end()
    assert code == 2 and f"--pid {target.pid}" in words


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_another_user_is_refused_with_the_command(threads: StartThreads) -> None:
    target = threads("crowd", 2)
    # Where others may look, too.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        binary = shutil.copy(built_binary("stacksampler"), place)
        argv = ["setpriv", "--reuid=65534", "--clear-groups", binary, f"--pid={target.pid}", "-o", "/dev/null"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"sudo stacksampler --pid {target.pid}" in done.stderr and not_stopped(target.pid)


# ---- what a process notices: nothing; and threads that cannot be stopped ---------------------------------------------
@pytest.mark.parametrize("mode", ["calls", "filtered", "signals"])
def test_everything_ends_as_it_does_without_a_sampler(calls_binary: Path, tmp_path: Path, mode: str) -> None:
    with subprocess.Popen(
        [str(calls_binary), mode, "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as target:
        assert target.stdout is not None
        assert target.stdout.readline() == "ready\n"  # until then it may have no code to be sampled
        sampler = Sampler(target.pid, tmp_path, "--hz=99", "--callgraph=fp")
        try:
            sampler.until_open()
            # The target ends by itself while it is sampled, unless one of its threads hangs.
            sampler.until_sampled(1_000_000)
            target.terminate()
            out, errors = target.communicate(timeout=60)
        finally:
            target.kill()
            ended = sampler.end()
    assert (target.returncode, errors) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert len(rows) == (4 if mode == "signals" else 19) and all(int(times) > 0 for _, times, _ in rows)
    assert {name: wrong for name, _, wrong in rows if wrong != "0"} == {}
    assert ended == (0, "") and sampler.stats["end"] == "target ended"
    assert sampler.stats["stop"]["n"] > 0


def test_each_look_at_a_thread_that_does_not_stop_is_a_sample(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("stuck")
    until(lambda: "D" in thread_states(target.pid).values())
    stats = sampled(target.pid, tmp_path).stats
    (stuck,) = [thread for thread in stats["threads"] if thread["name"] == "stuck"]
    (main,) = [thread for thread in stats["threads"] if thread["name"] != "stuck"]
    assert stuck["states"].keys() == {"D"} and stuck["samples"] == stats["rounds"]
    # A round that the end of the window cut had the first thread alone.
    assert main["samples"] - stats["rounds"] in (0, 1)
    # On a busy host the other may get no CPU to stop on.
    assert stats["rounds"] <= stats["lacking"]["did_not_stop"] <= stuck["samples"] + main["samples"]


def test_an_uninterruptible_wait_has_its_time_and_its_stack(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("stuck")
    until(lambda: "D" in thread_states(target.pid).values())
    assert target.stdin is not None
    (tid,) = thread_states(target.pid).keys() - {target.pid}
    sampler = Sampler(target.pid, tmp_path, "--hz=100")
    sampler.until_open()
    sampler.until_sampled()
    # Until then the other thread's alone: what is seen of one that waits is written when it stops.
    rounds = sampler.samples_file.read_text().count("\n")
    target.stdin.write(b"x")
    target.stdin.flush()
    until(lambda: "D" not in thread_states(target.pid).values(), every=0.001)
    after = time.monotonic_ns()
    until(lambda: f'"tid":{tid},' in sampler.samples_file.read_text())
    sampler.process.send_signal(signal.SIGTERM)
    assert sampler.end() == (0, "")
    stats = sampler.stats
    (stuck,) = [thread for thread in stats["threads"] if thread["name"] == "stuck"]
    waited = stuck["states"]["D"]
    assert stuck["states"].keys() <= {"D", "S", "R"} and waited["samples"] >= rounds > 50
    # A sample weighs the time since the one before: D ends with the last look that saw it.
    assert 0 < waited["weight_ns"] <= after - stats["start_ns"]
    waiting = {stack: weight for stack, weight in sampler.folded().items() if stack.endswith("uninterruptible_[D]")}
    # Taken when it came back; it cannot be stopped before.
    assert with_frame(waiting, "start_thread") == waiting and sum(waiting.values()) == waited["weight_ns"]
