"""Real processes of real threads for the samplers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.perf import Plan, Recording
from ground.system.observer import attached
from ground.system.proc_stat import stat_fields
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.programs import FRAMES, built
from tests.until import until

THREADS = Path(__file__).with_name("threads.c")

StartThreads = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="session")
def threads_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Where large frames are probed, as on Ubuntu by default, each page of a stack is in memory.
    return built(tmp_path_factory, THREADS, *FRAMES, "-pthread", "-fno-stack-clash-protection")


@pytest.fixture(scope="session")
def calls_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, Path(__file__).with_name("calls.c"), *FRAMES, "-pthread")


@pytest.fixture
def threads(threads_binary: Path) -> Iterator[StartThreads]:
    """Starts `threads MODE COUNT`, and ends it after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(mode: str, count: int = 1) -> subprocess.Popen[bytes]:
        argv = [str(threads_binary), mode, str(count)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def recording(
    children: Children, pid: int, data: Path, scope: str = "process", callgraph: str = "fp"
) -> Iterator[Recording]:
    """perf at 999 Hz, attached within; the window is the test's to open and to close."""
    plan = Plan("cpu-clock", 999, scope, callgraph, ())
    observer = Recording(children, plan, [pid], data, data.with_name("log"))
    with attached(observer, Reporter(quiet=True)):
        yield observer


def thread_states(pid: int) -> dict[int, str]:
    """State letter of each thread; threads that end meanwhile are left out."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, not paths
        try:
            found[int(name)] = stat_fields(Path(f"/proc/{pid}/task/{name}/stat"))[0].decode()
        except OSError:
            continue
    return found


def burnt(pid: int) -> float:
    """Seconds of CPU of a process and its ended threads, by the scheduler's clock."""
    return time.clock_gettime(~pid << 3 | 2)


def until_burnt(pid: int, seconds: float) -> None:
    """Returns after so much more CPU of a process."""
    end = burnt(pid) + seconds
    until(lambda: burnt(pid) >= end)
