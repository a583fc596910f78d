"""A process ends within the window, and another is given its number: it is not counted as the first one's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from collectors.pmp import PmpPlan, Sampling
from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ebpf.ladder import LadderRequest, ladder_observer
from ebpf.offcpu import off_cpu_observer
from ebpf.runqlat import run_queue_observer
from folding.pmp import fold_pmp
from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import read_ladder
from ground.results.off_cpu import read_off_cpu, read_run_queue
from ground.results.pmp import read_pmp
from ground.system.process import Children
from tests.ebpf.conftest import SOURCES, Build, Disk, Start
from tests.ebpf.test_ladder import Standin
from tests.ebpf.test_offcpu import adds_up, slept_and_begun, switches
from tests.programs import built

pytestmark = pytest.mark.needs("co-re", "set_tid")

# Primes: what the first one reads, and what its successor does.
_FIRST, _SECOND = 211, 307
_BACKENDS = ["co-re", pytest.param("bpftrace", marks=pytest.mark.needs("bpftrace"))]


@pytest.fixture(scope="session")
def reborn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, SOURCES / "reborn.c", "-O1")


Succeed = Callable[["subprocess.Popen[str]", Sequence[str]], int]


@pytest.fixture
def succeed(reborn: Path, program: Path) -> Iterator[Succeed]:
    """Ends a process and runs `waiting` under its number, with the modes given; returns once its threads run."""
    started: list[subprocess.Popen[str]] = []

    def succeed(first: subprocess.Popen[str], modes: Sequence[str]) -> int:
        end(first)
        argv = [str(reborn), str(first.pid), str(program), "120", *modes]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == first.pid
        return first.pid

    yield succeed
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_off_cpu_ends_with_the_process(start: Start, succeed: Succeed, tmp_path: Path) -> None:
    first = start("sleep")
    with Children() as children:
        observer = off_cpu_observer(children, first.pid, tmp_path / "off.json", tmp_path / "off.data")
        observer.attach()
        observer.open()
        time.sleep(0.3)  # the part of the window that the first one lives in
        succeed(first, ["churn", "spin"])
        time.sleep(0.3)  # the part of its successor
        observer.close()
        observer.detach()
    off = read_off_cpu(tmp_path / "off.json")
    assert off.process_ended_ns is not None and off.process_ended_ns < off.end_ns - 0.3e9
    assert len(off.threads) == 2 and all(thread.ended for thread in off.threads)
    assert max(thread.end_ns for thread in off.threads) == off.process_ended_ns
    adds_up(off)


@pytest.mark.parametrize("backend", _BACKENDS)
def test_the_run_queue_ends_with_the_process(start: Start, succeed: Succeed, tmp_path: Path, backend: str) -> None:
    first = start("sleep")
    with Children() as children:
        observer = run_queue_observer(children, first.pid, tmp_path / "queue.json", backend=backend)
        observer.attach()
        observer.open()
        slept_and_begun(first.pid, 100)
        first.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
        most = switches(first.pid)
        succeed(first, ["churn", "sleep"])
        time.sleep(0.3)  # the part of its successor
        observer.close()
        observer.detach()
    queue = read_run_queue(tmp_path / "queue.json")
    assert queue.waits["woken"].count > 50
    assert queue.waits["started"].count == 0
    # Each of its two threads leaves its CPU once more, for good.
    assert queue.voluntary + queue.involuntary <= most + 2


@pytest.mark.needs("loop")
@pytest.mark.parametrize("backend", _BACKENDS)
def test_the_reads_of_the_successor_are_everybody_elses(
    build: Build, reborn: Path, loop: Disk, tmp_path: Path, backend: str
) -> None:
    binary, out = build(1), tmp_path / "iolat.json"
    first = Standin(binary, Path(loop.path))
    with Children() as children:
        observer = io_latency_observer(IoLatencyRequest([first.pid], loop.number, backend=backend), children, out)
        observer.attach()
        observer.open()
        assert first.query(f"1 {_FIRST}") == _FIRST
        first.kill()
        second = Standin(binary, Path(loop.path), str(reborn), str(first.pid))
        assert second.query(f"1 {_SECOND}") == _SECOND
        observer.close()
        second.kill()
        observer.detach()
    latency = read_io_latency(out)
    process, others = (latency.row("read", owner).total.count for owner in ("process", "others"))
    # The rest are those whose end was not seen.
    assert 0.5 * _FIRST <= process <= _FIRST
    assert others >= 0.5 * _SECOND
    assert latency.facts["processes_ended"] == 1


@pytest.mark.parametrize(
    ("backend", "shape", "begins"),
    [
        ("co-re", 1, "query"),
        ("co-re", 4, "syscall"),
        pytest.param("bpftrace", 4, "syscall", marks=pytest.mark.needs("bpftrace")),
    ],
)
def test_the_ladder_ends_with_the_process(
    build: Build, reborn: Path, tmp_path: Path, data: Path, backend: str, shape: int, begins: str
) -> None:
    binary, out = build(shape), tmp_path / "ladder.json"
    first = Standin(binary, data)
    with Children() as children:
        observer = ladder_observer(LadderRequest(first.pid, 1, begins, backend=backend), children, out)
        first.order("go")
        observer.attach()
        first.query("stop")
        observer.open()
        assert first.query(f"1 {_FIRST}") == _FIRST
        first.kill()
        second = Standin(binary, data, str(reborn), str(first.pid))
        assert second.query(f"1 {_SECOND}") == _SECOND
        observer.close()
        second.kill()
        observer.detach()
    ladder = read_ladder(out)
    assert ladder.start == begins
    assert ladder.queries == ladder.finished == _FIRST
    assert ladder.threads == 1
    assert ladder.process_ended


@pytest.mark.alone
@pytest.mark.parametrize("sampler", ["stacksampler", pytest.param("gdb", marks=pytest.mark.needs("gdb"))])
def test_stacks_are_those_of_the_process(start: Start, succeed: Succeed, tmp_path: Path, sampler: str) -> None:
    first = start("sleep")
    with Children() as children:
        sampling = Sampling(children, PmpPlan(sampler, hz=20, force=True), first.pid, tmp_path)
        sampling.attach()
        (child,) = children
        sampling.open()
        sampling.wait(1.0)
        # Held, so that it finds the successor at its next round.
        os.kill(child.pid, signal.SIGSTOP)
        pid = succeed(first, ["spin", "lock"])
        os.kill(child.pid, signal.SIGCONT)
        sampling.wait(20)
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
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SRD"
