"""A process ends within the window, and another is given its number: it is not counted as the first one's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.pmp import Sampling
from collectors.pmp_plan import PmpPlan
from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ebpf.ladder import LadderRequest
from folding.pmp import fold_pmp
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.pmp import read_pmp
from ground.system.process import Children
from tests.collectors.conftest import thread_states
from tests.ebpf.conftest import Build, Disk, Start
from tests.ebpf.off_cpu_windows import adds_up, observe_load, queue_of, slept_and_begun, switches
from tests.ebpf.windows import BACKENDS, FEW, Load, Standin, checked, ladder_of, observed
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "set_tid")]

# A prime as well: what the successor does.
_SECOND = 307


@pytest.fixture(scope="session")
def reborn(compile_once: Build) -> Path:
    return compile_once("reborn.c", "-O1")


Succeed = Callable[..., int]


@pytest.fixture
def succeed(reborn: Path, program: Path) -> Iterator[Succeed]:
    """`succeed(process, *modes)`: ends it and runs `waiting` under its number; returns once its threads run."""
    started: list[subprocess.Popen[str]] = []

    def succeed(first: subprocess.Popen[str], *modes: str) -> int:
        first.kill()
        first.wait()
        argv = [str(reborn), str(first.pid), str(program), "3600", *modes]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == first.pid
        return first.pid

    yield succeed
    for process in started:
        process.kill()
        process.communicate()


def test_off_cpu_ends_with_the_process(start: Start, succeed: Succeed, tmp_path: Path) -> None:
    first = start("sleep", "spin")

    def load() -> None:
        slept_and_begun(first.pid, 50)
        slept_and_begun(succeed(first, "churn", "spin"), 0, 20)

    off = observe_load(first.pid, tmp_path, load)
    assert off.process_ended_ns is not None and off.start_ns < off.process_ended_ns < off.end_ns
    assert len(off.threads) == 3 and all(thread.ended for thread in off.threads)
    assert max(thread.end_ns for thread in off.threads) == off.process_ended_ns
    assert "process" in {check.name for check in off.checks()}
    adds_up(off)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_run_queue_ends_with_the_process(start: Start, succeed: Succeed, tmp_path: Path, backend: str) -> None:
    first = start("sleep")
    most = 0

    def load() -> None:
        nonlocal most
        slept_and_begun(first.pid, 100)
        first.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        most = switches(first.pid)
        slept_and_begun(succeed(first, "churn", "sleep"), 0, 20)

    queue = queue_of(first.pid, tmp_path, load, backend=backend)
    assert queue.waits["woken"].count > 50 and queue.waits["started"].count == 0
    # Each of its two threads leaves its CPU once more, for good.
    assert queue.voluntary + queue.involuntary <= most + 2


def both(engine: Standin, reborn: Path, binary: Path, shape: int = 1) -> Load:
    """What the first one reads, and then a successor of its number."""

    def load() -> None:
        assert engine.query(f"1 {FEW}") == FEW
        engine.kill()
        second = Standin(binary, engine.data, str(reborn), str(engine.pid), shape=shape)
        assert second.query(f"1 {_SECOND}") == _SECOND
        second.kill()

    return load


@pytest.mark.needs("loop")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_reads_of_the_successor_are_everybody_elses(
    build: Build, reborn: Path, loop: Disk, tmp_path: Path, backend: str
) -> None:
    first, out = Standin(build(), Path(loop.path)), tmp_path / "iolat.json"
    request = IoLatencyRequest([first.pid], loop.number, backend=backend)
    observed(lambda children: io_latency_observer(request, children, out), both(first, reborn, build()))
    latency = read_io_latency(out)
    process, others = (latency.row("read", owner).total.count for owner in ("process", "others"))
    # The rest are those whose end was not seen.
    assert 0 < process <= FEW and others > 0
    if backend == "co-re":
        unseen = latency.losses["no_end"] + latency.facts["unfinished"]
        assert latency.diskstats is not None
        assert process + others + unseen == latency.diskstats.outer.read.requests
    assert latency.facts["processes_ended"] == 1


@pytest.mark.parametrize(("shape", "begins"), [(1, "query"), (4, "syscall")])
def test_the_ladder_ends_with_the_process(
    build: Build, reborn: Path, tmp_path: Path, data: Path, shape: int, begins: str
) -> None:
    first = Standin(build(), data, shape=shape)
    request = LadderRequest(first.pid, 1, begins)
    ladder = ladder_of(request, tmp_path, both(first, reborn, build(), shape), first)
    assert (ladder.start, ladder.threads, ladder.process_ended) == (begins, 1, True)
    assert ladder.queries == ladder.finished == FEW
    # Soon after its functions were probed, or not: attaching takes as long as it takes.
    soon = ladder.ended_soon_s
    assert checked(ladder, "window").verdict is (Verdict.WARN if soon is None else Verdict.FAILED)


def main_switches(pid: int) -> int:
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def held_outside_of_a_round(sampler: int, target: int) -> bool:
    """Whether the sampler, which is stopped here, traces no thread of the target; otherwise it goes on."""
    os.kill(sampler, signal.SIGSTOP)
    until(lambda: set(thread_states(sampler).values()) == {"T"})
    tasks = Path(f"/proc/{target}/task").iterdir()
    if all("\nTracerPid:\t0\n" in (task / "status").read_text() for task in tasks):
        return True
    os.kill(sampler, signal.SIGCONT)
    return False


@pytest.mark.parametrize("sampler", ["stacksampler", pytest.param("gdb", marks=pytest.mark.needs("gdb"))])
def test_stacks_are_those_of_the_process(start: Start, succeed: Succeed, tmp_path: Path, sampler: str) -> None:
    first = start("sleep")
    with Children() as children:
        sampling = Sampling(children, PmpPlan(sampler, hz=20, budget_ms=1e6, force=True), first.pid, tmp_path)
        sampling.attach()
        (child,) = children
        sampling.open()
        # Its main thread sleeps all the time: a tracer that stops it wakes it.
        before = main_switches(first.pid)
        until(lambda: main_switches(first.pid) >= before + 20)
        # Held, so that it finds the successor at its next round; a thread that it traces could not end meanwhile.
        until(lambda: held_outside_of_a_round(child.pid, first.pid))
        pid = succeed(first, "spin", "lock")
        os.kill(child.pid, signal.SIGCONT)
        until(lambda: not child.running)
        sampling.close()
        sampling.detach()
    pmp = read_pmp(tmp_path)
    assert pmp.end == "target ended"
    assert 0 < len(pmp.threads) <= 2
    fold_pmp(tmp_path, "rocksdb")
    frames = {frame for line in (tmp_path / Files.PMP_FOLDED).read_text().splitlines() for frame in line.split(";")}
    # gdb -readnever names exported functions alone; since glibc 2.41 sleep's is below one that is not.
    assert any("nanosleep" in frame or "syscall_cancel" in frame for frame in frames)
    assert not frames & {"spins", "locks", "take", "give", "pthread_mutex_lock", "__lll_lock_wait"}
    assert thread_states(pid)[pid] in "SRD"
