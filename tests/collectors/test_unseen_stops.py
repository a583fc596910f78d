"""What a process notices of being sampled: nothing; and what is seen of threads that cannot be stopped."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.collectors.conftest import StartThreads, thread_states
from tests.collectors.sampler import Sampler, sampled, with_frame
from tests.until import until

pytestmark = pytest.mark.long


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
    assert len(rows) == (4 if mode == "signals" else 20) and all(int(times) > 0 for _, times, _ in rows)
    assert {name: wrong for name, _, wrong in rows if wrong != "0"} == {}
    assert ended == (0, "") and sampler.stats["end"] == "target ended"
    assert sampler.stats["stop"]["n"] > 0


def test_each_look_at_a_thread_that_does_not_stop_is_a_sample(threads: StartThreads, tmp_path: Path) -> None:
    target = threads("stuck")
    until(lambda: "D" in thread_states(target.pid).values())
    stats = sampled(target.pid, tmp_path).stats
    (stuck,) = [thread for thread in stats["threads"] if thread["name"] == "stuck"]
    (main,) = [thread for thread in stats["threads"] if thread["name"] != "stuck"]
    assert stuck["states"].keys() == {"D"} and stuck["samples"] == main["samples"] == stats["rounds"]
    # On a busy host the other may get no CPU to stop on.
    assert stats["rounds"] <= stats["lacking"]["did_not_stop"] <= 2 * stats["rounds"]


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
