"""CPU of threads and processes that begin and end between two looks at a target, against what they say themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.attached import AttachedWindows
from collectors.counters import Snapshot, delta
from collectors.target_counters import TargetProbe
from ground.results.checks import Verdict
from ground.results.record import Target as TargetRecord
from ground.system.held_process import HeldProcess
from ground.system.target import Target
from ground.text.progress import Reporter
from ioflame.analysis.checks.target import target_checks

# It does what it reads, `REQUESTS` times, and prints the CPU time of its children in ns, or the pid of one that lasts.
REQUESTS = 10
# s of CPU: of a child that lasts, until it is seen and again until it ends; all that counts in ticks may miss of it.
LASTS, TICKS = 0.1, 0.05
_SERVER = """
import os, signal, sys, threading, time
if os.fork(): os._exit(0)  # what is below who watches is no part of a target
def burn(until=0.02):
    end = time.thread_time() + until
    while time.thread_time() < end: pass
    return time.process_time_ns()
def fork(work=burn):
    told, tell = os.pipe()
    if not os.fork():
        os.write(tell, str(work()).encode())
        os._exit(0)
    return int(os.read(told, 30)), os.close(told), os.close(tell)
def forked():
    used = fork()[0]
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL: os.wait()
    return used
def threaded():
    one = threading.Thread(target=burn); one.start(); one.join()
    return 0
held = []
def lasting():
    '''A child that has worked when it is told so, and works again when its pipe is closed.'''
    begin, go = os.pipe()
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go); burn(0.1); os.write(tell, b'x'); os.read(begin, 1); burn(0.1); os._exit(0)
    os.close(begin); os.read(ready, 1); held.append((pid, go))
    return pid
def ended():
    pid, go = held.pop()
    os.close(go)
    return os.wait4(pid, 0)[2] and 0
def ignoring():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return 0
def gone():
    pid, go = held.pop()
    os.close(go)
    while os.path.exists(f'/proc/{pid}'): time.sleep(0.001)
    return 0
print(os.getpid(), flush=True)
for line in sys.stdin:
    name, _, times = line.strip().partition(' ')
    children = sum(globals()[name]() for _ in range(int(times or 1)))
    print(children, flush=True)
"""


class Server:
    """A process that does what a line on its standard input asks, and answers when it is done."""

    def __init__(self, streams: subprocess.Popen[str]) -> None:
        assert streams.stdin is not None and streams.stdout is not None
        self._orders, self._answers = streams.stdin, streams.stdout
        self.pid = int(self._answers.readline())

    def does(self, what: str, times: int = 1) -> int:
        self._orders.write(f"{what} {times}\n")
        self._orders.flush()
        return int(self._answers.readline())


@pytest.fixture
def server() -> Iterator[Server]:
    argv = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as streams:
        server = Server(streams)
        held = HeldProcess(server.pid)
        yield server
        held.send(signal.SIGKILL)
        while held.alive:
            os.sched_yield()


def probe_of(target: Target) -> TargetProbe:
    return TargetProbe(target, None, lambda _, name: name)


def cpu(first: Snapshot, last: Snapshot) -> float:
    """Seconds; what the groups' rows add up to."""
    gained = delta(first, last, None, last.names())
    assert sum(own.cpu_ns for own in gained.roles.values()) == gained.cpu_ns
    assert gained.user_ns >= 0 and gained.system_ns >= 0
    # By the kernel's other account.
    assert gained.accounted_ns / 1e9 == pytest.approx(gained.cpu_ns / 1e9, abs=TICKS)
    return gained.cpu_ns / 1e9


def used(pid: int) -> float:
    """Seconds of a process and of all the children that it has waited for, since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("kind", ["forked", "threaded"])
def test_what_ends_between_two_looks_is_counted(server: Server, kind: str) -> None:
    probe, before = probe_of(Target([server.pid])), used(server.pid)
    first = probe.snapshot()
    server.does(kind, REQUESTS)
    last = probe.snapshot()
    # The rest of it is the server's own: it forks, and waits.
    assert REQUESTS * 0.02 - TICKS <= cpu(first, last) <= used(server.pid) - before + TICKS
    assert any(task.name == "ended between two looks" for task in last.tasks.values()) and not probe.lost


def test_a_child_that_was_seen_and_ends_is_counted_once(server: Server) -> None:
    probe, before = probe_of(Target([server.pid])), used(server.pid)
    first = probe.snapshot()
    child = server.does("lasting")
    seen = probe.snapshot()
    assert LASTS - TICKS <= cpu(first, seen) <= used(server.pid) + used(child) - before + TICKS
    server.does("ended")
    last = probe.snapshot()
    assert 2 * LASTS - TICKS <= cpu(first, last) <= used(server.pid) - before + TICKS
    io = delta(first, last, None)
    assert 0 <= io.read_calls <= 20 and io.minor_faults < 3000
    assert probe.snapshot().user_ticks >= last.user_ticks and not probe.lost


def test_a_child_that_ends_within_the_first_look_was_waited_for(server: Server) -> None:
    """It began while we watched, was seen, and was in the sums that its parent begins with."""
    orders = ["ended"]

    def group(_: HeldProcess, name: str) -> str:
        if orders:
            server.does(orders.pop())
        return name

    server.does("forked")  # it takes more than a tick: the server began before the probe
    probe = TargetProbe(Target([server.pid]), None, group)
    server.does("lasting")
    first, before = probe.snapshot(), used(server.pid)
    last = probe.snapshot()
    assert not orders and not probe.lost
    assert cpu(first, last) <= used(server.pid) - before + TICKS


def test_a_child_that_nobody_waits_for_fails_a_check(server: Server) -> None:
    target = Target([server.pid])
    probe, before = probe_of(target), used(server.pid)
    server.does("ignoring")
    first = probe.snapshot()
    child = server.does("lasting")
    probe.snapshot()
    seen = used(child)
    server.does("gone")
    last = probe.snapshot()
    assert probe.lost == 1 and probe.ignoring == [server.pid]
    # What was seen of it stays.
    assert LASTS - TICKS <= cpu(first, last) <= used(server.pid) + seen - before + TICKS
    record = TargetRecord("--pid 1", "p", [1], ended_lost=probe.lost)
    (check,) = (check for check in target_checks(record, []) if check.name == "ended processes")
    assert check.verdict is Verdict.FAILED and "1 process" in check.value and "--cgroup" in check.mend


def test_the_counter_of_a_group_has_what_nobody_waited_for(server: Server, group: Path) -> None:
    (group / "cgroup.procs").write_text(str(server.pid), encoding="ascii")
    probe, before = probe_of(Target([], group)), used(server.pid)
    server.does("ignoring")
    first = probe.snapshot()
    children = server.does("forked", REQUESTS) / 1e9
    last = probe.snapshot()
    assert children - TICKS <= cpu(first, last) <= used(server.pid) - before + 1.5 * children + TICKS
    assert children >= REQUESTS * 0.02 and not probe.lost and not probe.ignoring
    (group.parent / "cgroup.procs").write_text(str(server.pid), encoding="ascii")


def test_one_rate_stands_for_windows_and_says_nothing_of_seconds() -> None:
    probe = TargetProbe(Target([os.getpid()]), None, lambda _, name: name)
    windows = AttachedWindows(probe, {}, Reporter(quiet=True))
    windows.plain(0.05)
    windows.rate = 1000.0
    (window,) = windows.windows()
    assert window.counters.queries == pytest.approx(1000 * window.seconds)
    assert [one.counters.queries for one in windows.series()] == [None] * len(windows.series())
