"""Off-CPU time of real threads that wait in known ways: what they waited for, and that nothing is missing."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from ebpf.offcpu import off_cpu_observer
from ebpf.runqlat import run_queue_observer
from folding.offcpu import fold_off_cpu
from ground.results.checks import Verdict
from ground.results.off_cpu import STATES, OffCpu, OffStack, RunQueue, read_off_cpu, read_run_queue
from ground.system.process import Children
from tests.ebpf.conftest import Start
from tests.until import until

pytestmark = pytest.mark.needs("co-re")

SECONDS = 1.0


def slept_and_begun(pid: int, sleeps: int, threads: int = 0) -> None:
    """Returns when threads of a process have slept so often, and so many were begun: a busy host takes its time."""
    voluntary = ("voluntary_ctxt",)
    before, known = switches(pid, voluntary), tids(pid)
    new: set[str] = set()

    def enough() -> bool:
        new.update(tids(pid) - known)
        return switches(pid, voluntary) - before >= sleeps and len(new) >= threads

    until(enough)


def tids(pid: int) -> set[str]:
    return {task.name for task in Path(f"/proc/{pid}/task").iterdir()}


def observe(pid: int, directory: Path, seconds: float = SECONDS, *, threads: int = 0, **options: bool | int) -> OffCpu:
    """Of a window of some seconds at least, in which so many threads were begun."""
    with Children() as children:
        observer = off_cpu_observer(children, pid, directory / "off.json", directory / "off.data", **options)  # type: ignore[arg-type]
        observer.attach()
        observer.open()
        time.sleep(seconds)  # the window itself
        slept_and_begun(pid, 0, threads)
        observer.close()
        observer.detach()
    return read_off_cpu(directory / "off.json")


def queue_of(pid: int, directory: Path, *, sleeps: int, threads: int, map_entries: int | None = None) -> RunQueue:
    with Children() as children:
        observer = run_queue_observer(children, pid, directory / "queue.json", map_entries=map_entries)
        observer.attach()
        observer.open()
        slept_and_begun(pid, sleeps, threads)
        observer.close()
        observer.detach()
    return read_run_queue(directory / "queue.json")


def adds_up(off: OffCpu) -> None:
    """Each thread's parts make up its time; all of them the whole, within 2 %."""
    for thread in off.threads:
        parts = thread.ran_ns + sum(thread.off_ns.values())
        assert abs(parts - thread.life_ns) <= max(0.02 * thread.life_ns, 2_000_000), thread
    assert abs(off.ran_ns + off.off_ns - off.elapsed_ns) <= 0.02 * off.elapsed_ns
    failed = [check for check in off.checks() if check.verdict is Verdict.FAILED]
    assert not failed, failed


def test_every_kind_of_wait_is_told_and_all_adds_up(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "spin", "forever")
    off = observe(process.pid, tmp_path)
    window = off.end_ns - off.start_ns
    adds_up(off)
    assert len(off.threads) == 6  # the main one, two of the lock
    assert off.elapsed_ns == 6 * window
    assert not any(off.losses[name] for name in ("lost_thread", "lost_sum", "lost_stack", "lost_end")), off.losses
    # The main thread and `forever` never moved: nothing told of them but /proc.
    still = [thread for thread in off.threads if thread.voluntary == 0 and thread.ran_ns == 0]
    assert [thread.off_ns for thread in still] == [{"sleep": window}] * 2
    assert off.stacks.before_ns >= 2 * window
    spinning = max(off.threads, key=lambda thread: thread.ran_ns)
    assert set(spinning.off_ns) <= {"preempted", "woken"}
    # One of the two always holds the mutex: the other waits in a futex.
    assert 0.5 * window < off.states["lock"].ns < 1.2 * window
    assert off.states["io"].ns == 0


# On a busy host the mutex is asked for late, and held for a shorter part of its time.
@pytest.mark.alone
def test_a_lock_a_condition_and_a_join_are_three_things(start: Start, tmp_path: Path) -> None:
    process = start("turns")
    # A round takes 7 ms, and several times that on a busy host.
    off = observe(process.pid, tmp_path, seconds=3)
    adds_up(off)
    # Those that it begins have its name.
    still = (thread for thread in off.threads if not (thread.started or thread.ended))
    (turns,) = (thread.tid for thread in still if thread.comm == "turns")
    stacks = [stack for stack in fold_off_cpu(tmp_path / "off.data", "rocksdb") if stack.tid == turns]
    ns = {state: sum(stack.ns for stack in stacks if stack.state == state) for state in STATES}
    rounds = sum(stack.count for stack in stacks if stack.state == "condition")
    assert rounds >= 20
    # A nap is never too short. The round at either edge may have been cut, and the mutex may have been held a moment
    # before it was asked for.
    whole = rounds - 2
    assert ns["lock"] >= whole * 3_500_000
    assert ns["condition"] >= whole * 1_900_000
    assert ns["join"] >= whole * 900_000
    # How late a host wakes a thread varies, so no time has an upper bound here: each kind occurs once a round.
    waits = {state: sum(stack.count for stack in stacks if stack.state == state) for state in ("lock", "join")}
    assert all(count >= whole for count in waits.values())
    assert ns["futex"] == 0
    folded = (tmp_path / "offcpu.folded").read_text()
    assert all(f"[{state}]" in folded for state in ("lock", "condition", "join"))
    # The main thread naps, and none of it is a lock.
    assert next(thread for thread in off.threads if thread.tid == process.pid).off_ns.keys() == {"sleep"}


@pytest.mark.parametrize(
    ("mode", "state"),
    [("rwlock", "lock"), ("semaphore", "lock"), ("timed", "lock"), ("priority", "lock"), ("own", "futex")],
)
def test_every_futex_is_what_it_is_waited_in_for(start: Start, tmp_path: Path, mode: str, state: str) -> None:
    off = observe(start(mode).pid, tmp_path)
    adds_up(off)
    futexes = {name: off.states[name].ns for name in ("lock", "condition", "join", "futex") if off.states[name].ns}
    assert futexes.keys() == {state}
    assert off.states[state].ns > 0.5 * (off.end_ns - off.start_ns)


def test_threads_that_never_moved_are_told_apart_too(start: Start, tmp_path: Path) -> None:
    process = start("parked", "joins", "taken")
    # No event is to tell of them: each has to be where it stays before it is looked at.
    until(lambda: sum(map(waits_in_futex, Path(f"/proc/{process.pid}/task").iterdir())) >= 3)
    off = observe(process.pid, tmp_path, seconds=0.3)
    adds_up(off)
    window = off.end_ns - off.start_ns
    waits = {thread.comm: thread.off_ns for thread in off.threads}
    assert waits["parked"] == {"condition": window}
    assert waits["joins"] == {"join": window}
    assert waits["taken"] == {"lock": window}


def waits_in_futex(task: Path) -> bool:
    return "futex" in (task / "stack").read_text()


def test_stacks_have_true_names_and_weights(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock")
    off = observe(process.pid, tmp_path)
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    by_state = {state: sum(s.ns for s in stacks if s.state == state) for state in off.states}
    assert by_state == {state: total.ns for state, total in off.states.items()}
    counted = {state: sum(s.count for s in stacks if s.state == state) for state in off.states}
    assert counted == {state: total.count for state, total in off.states.items()}

    def through(state: str, frame: str) -> int:
        return sum(s.ns for s in stacks if s.state == state and frame in s.frames)

    assert through("lock", "locks") > 0.9 * by_state["lock"]
    assert through("sleep", "sleeps") > 0.3 * (off.end_ns - off.start_ns)
    assert through("lock", "sleeps") == 0
    frames = {frame for stack in stacks for frame in stack.frames}
    assert not [frame for frame in frames if "bpf" in frame], "the tracer's own frames"
    assert "__schedule_[k]" in frames
    lines = (tmp_path / "offcpu.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == off.off_ns


def test_threads_started_and_ended_in_the_window_add_up(start: Start, tmp_path: Path) -> None:
    process = start("churn", "sleep")
    off = observe(process.pid, tmp_path, 0, threads=100)
    adds_up(off)
    whole = [thread for thread in off.threads if thread.started and thread.ended]
    assert len(whole) >= 64
    # Each slept ten times 2 ms. One held up on its way to sleep, its timer set, waits in another state meanwhile.
    for thread in whole:
        assert thread.cpu_ns is not None and thread.cpu_ns < thread.life_ns
        assert thread.cpu_ns + sum(thread.off_ns.values()) >= 20_000_000
    assert statistics.median(thread.off_ns["sleep"] for thread in whole) >= 0.95 * 20_000_000


@pytest.mark.alone
def test_small_maps_lose_stacks_but_no_time(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "spin")
    off = observe(process.pid, tmp_path, map_entries=6)
    assert off.losses["lost_stack"] + off.losses["lost_sum"] > 0
    assert off.losses["lost_thread"] == 0
    assert abs(off.ran_ns + off.off_ns - off.elapsed_ns) <= 0.02 * off.elapsed_ns
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    lost = sum(stack.ns for stack in stacks if "[lost stack]" in stack.frames)
    # They are summed apart, and up to 0.03 % was seen between them.
    assert abs(lost - off.stacks.lost_ns) <= 0.01 * off.stacks.lost_ns
    assert lost > 0
    assert sum(stack.ns for stack in stacks) == off.off_ns
    assert [check for check in off.checks() if check.name == "off-CPU: losses"]


def test_lost_threads_are_a_failed_check(start: Start, tmp_path: Path) -> None:
    process = start("churn", "sleep", "lock")
    off = observe(process.pid, tmp_path, map_entries=2)
    assert off.losses["lost_thread"] > 0
    assert Verdict.FAILED in {check.verdict for check in off.checks()}


def test_the_waker_stands_on_what_it_woke(start: Start, tmp_path: Path) -> None:
    process = start("lock", "sleep")
    off = observe(process.pid, tmp_path, waker=True)
    adds_up(off)
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")

    def wakers(state: str) -> list[OffStack]:
        return [stack for stack in stacks if stack.state == state and "[woken by]" in stack.frames]

    locks = wakers("lock")
    assert sum(s.ns for s in locks) > 0.9 * off.states["lock"].ns
    seen = 0
    for stack in locks:
        place = stack.frames.index("[woken by]")
        # Upside down: the waker's own frames, its name last.
        if "locks" in stack.frames[:place] and "locks" in stack.frames[place:]:
            assert stack.frames[-1] == "[waker waiting]"
            seen += stack.ns
    assert seen > 0.8 * off.states["lock"].ns
    assert any(stack.frames[-1] == "[interrupt]" for stack in wakers("sleep"))


def test_any_thread_name_is_survived(start: Start, tmp_path: Path) -> None:
    process = start("hostile")
    off = observe(process.pid, tmp_path)
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    assert sum(stack.ns for stack in stacks) == off.off_ns
    assert {stack.tid for stack in stacks} == {thread.tid for thread in off.threads}
    lines = (tmp_path / "offcpu.folded").read_bytes().splitlines()
    assert sum(int(line.rpartition(b" ")[2]) for line in lines) == off.off_ns


def test_a_process_that_ends_keeps_what_was_seen_of_it(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "spin")
    with Children() as children:
        observer = off_cpu_observer(children, process.pid, tmp_path / "off.json", tmp_path / "off.data")
        observer.attach()
        observer.open()
        time.sleep(0.5)  # the part of the window that it lives in
        process.kill()
        process.wait()
        observer.close()
        observer.detach()
    off = read_off_cpu(tmp_path / "off.json")
    adds_up(off)
    assert off.process_ended_ns is not None
    assert off.start_ns < off.process_ended_ns < off.end_ns
    assert all(thread.ended for thread in off.threads) and len(off.threads) == 3
    assert "process" in {check.name for check in off.checks()}


def test_run_queue_waits_are_those_of_the_scheduler(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "spin", "churn")
    queue = queue_of(process.pid, tmp_path, sleeps=500, threads=100)
    assert not [check for check in queue.checks() if check.verdict is Verdict.FAILED]
    assert queue.waits["woken"].count > 300
    assert queue.waits["started"].count >= 64
    for wait in queue.waits.values():
        assert sum(count for _, _, count in wait.buckets) == wait.count
    assert queue.voluntary >= 500


def test_a_full_map_of_waits_is_told(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "churn")
    queue = queue_of(process.pid, tmp_path, sleeps=50, threads=8, map_entries=1)
    assert queue.losses["lost_thread"] > 0
    assert Verdict.FAILED in {check.verdict for check in queue.checks()}


def switches(pid: int, kinds: tuple[str, ...] = ("voluntary_ctxt", "nonvoluntary_ctxt")) -> int:
    """Context switches of the threads that a process has now."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(kinds))
    return total


@pytest.mark.needs("bpftool")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_it(start: Start, tmp_path: Path, how: signal.Signals) -> None:
    process = start("sleep")
    with Children() as children:
        observer = off_cpu_observer(children, process.pid, tmp_path / "off.json", tmp_path / "off.data")
        observer.attach()
        observer.open()
        (child,) = list(children)
        ours = _programs_of(child.pid)
        assert {name for number, name in _programs() if number in ours} >= {"on_switch", "on_waking", "on_new"}
        os.kill(child.pid, how)
        assert child.wait(20) is not None
        # The kernel frees programs after a grace period.
        until(lambda: not ours & {number for number, _ in _programs()}, every=0.05)
    assert process.poll() is None
    assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] in "SRD"


def _programs_of(pid: int) -> set[int]:
    """Ids of the BPF programs that a process has open; others of the same names may be loaded beside them."""
    infos = (info.read_text() for info in Path(f"/proc/{pid}/fdinfo").iterdir())
    return {int(number) for info in infos for number in re.findall(r"^prog_id:\s*(\d+)$", info, re.MULTILINE)}


def _programs() -> set[tuple[int, str]]:
    """The kernel's BPF programs by bpftool: id and name."""
    listing = subprocess.run(["bpftool", "--json", "prog", "list"], capture_output=True, check=True, text=True)
    return {(program["id"], program.get("name", "")) for program in json.loads(listing.stdout)}


def test_a_process_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Children() as children, pytest.raises(Exception, match=f"{gone.pid}"):
        off_cpu_observer(children, gone.pid, tmp_path / "off.json", tmp_path / "off.data").attach()
