"""Off-CPU time of real threads that wait in known ways: what they waited for, and that nothing is missing."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from ebpf.bpftrace import script
from folding.offcpu import fold_off_cpu
from ground.results.checks import Verdict
from ground.results.off_cpu import OffStack, read_off_cpu, read_run_queue
from ground.results.states import STATES
from ioflame.instruments.offcpu import off_cpu_observer
from ioflame.instruments.runqlat import run_queue_observer
from tests.collectors.conftest import thread_states
from tests.ebpf.conftest import Start
from tests.ebpf.off_cpu_windows import adds_up, observe, observe_load, queue_of, slept_and_begun, switches, totals_of
from tests.ebpf.windows import FEW, Standin, failed, in_turns, observed
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]


@pytest.mark.parametrize("turns", [0, 3])
def test_every_kind_of_wait_is_told_to_the_ns_and_what_is_between_turns_is_not(
    start: Start, tmp_path: Path, turns: int
) -> None:
    # In a single window some of those that come and go may live all the time.
    modes = ["sleep", "lock", "spin", "forever", *["churn"] * bool(turns)]
    process = start(*modes)
    out, recording = tmp_path / "off.json", tmp_path / "off.data"
    (in_turns if turns else observed)(
        lambda children: off_cpu_observer(children, process.pid, out, recording, turns=bool(turns)),
        lambda: slept_and_begun(process.pid, 50 if turns else 500, 8 * bool(turns)),
    )
    off = read_off_cpu(out)
    assert len(off.turns) == turns
    watched = off.turns or [(off.start_ns, off.end_ns)]
    assert (off.start_ns, off.end_ns) == (watched[0][0], watched[-1][1])
    lasted = sum(end - begin for begin, end in watched)
    adds_up(off)
    # The main one, two of the lock and one each of the others have one life of all turns.
    lasting = [thread for thread in off.threads if thread.life_ns == lasted]
    assert len(lasting) == len(modes) + 2 and not any(thread.started or thread.ended for thread in lasting)
    assert all(thread.life_ns <= lasted for thread in off.threads)
    assert not any(off.losses[name] for name in ("lost_thread", "lost_sum", "lost_stack", "lost_end")), off.losses
    # The main thread and `forever` never moved: nothing told of them but /proc.
    still = [thread for thread in lasting if thread.voluntary == 0 and thread.ran_ns == 0]
    assert [thread.off_ns for thread in still] == [{"sleep": lasted}] * 2
    assert off.stacks.before_ns >= 2 * lasted
    spinning = max(lasting, key=lambda thread: thread.ran_ns)
    assert set(spinning.off_ns) <= {"preempted", "woken"}
    # At most one of the two waits for the mutex.
    assert 0 < sum(thread.off_ns.get("lock", 0) for thread in lasting) <= lasted and off.states["io"].ns == 0
    assert totals_of(fold_off_cpu(recording, "rocksdb"), off.states) == off.states


def test_a_lock_a_condition_and_a_join_are_three_things(start: Start, tmp_path: Path) -> None:
    process = start("turns")
    off = observe(process.pid, tmp_path, sleeps=150)
    adds_up(off)
    # Those that it begins have its name.
    still = (thread for thread in off.threads if not (thread.started or thread.ended))
    (turns,) = (thread.tid for thread in still if thread.comm == "turns")
    stacks = [stack for stack in fold_off_cpu(tmp_path / "off.data", "rocksdb") if stack.tid == turns]
    waits = totals_of(stacks, STATES)
    for state, nap_ms in (("lock", 4), ("condition", 2), ("join", 1)):
        # A thread that is held up on its way to sleep, seen as asleep by the other one, does not wait in that round.
        assert waits[state].count >= 10
        # A nap is never too short.
        assert waits[state].ns >= waits[state].count * nap_ms * 1e6 / 2
    assert waits["futex"].ns == 0
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
    futexes = {name: off.states[name] for name in ("lock", "condition", "join", "futex") if off.states[name].ns}
    assert futexes.keys() == {state} and futexes[state].count > 10


def test_threads_that_never_moved_are_told_apart_too(start: Start, tmp_path: Path) -> None:
    process = start("parked", "joins", "taken")
    # No event is to tell of them: each has to be where it stays before it is looked at.
    until(lambda: sum(map(waits_in_futex, Path(f"/proc/{process.pid}/task").iterdir())) >= 3)
    off = observe_load(process.pid, tmp_path, lambda: time.sleep(0.1))  # the window itself
    adds_up(off)
    window = off.end_ns - off.start_ns
    waits = {thread.comm: thread.off_ns for thread in off.threads}
    assert waits["parked"] == {"condition": window}
    assert waits["joins"] == {"join": window}
    assert waits["taken"] == {"lock": window}


def waits_in_futex(task: Path) -> bool:
    return "futex" in (task / "stack").read_text()


def test_stacks_have_true_names_and_weights(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "hostile")
    off = observe(process.pid, tmp_path, sleeps=200)
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    assert totals_of(stacks, off.states) == off.states
    assert {stack.tid for stack in stacks} == {thread.tid for thread in off.threads}

    def through(state: str, frame: str) -> int:
        return sum(s.count for s in stacks if s.state == state and frame in s.frames)

    # But for a wait of before the window, which has no callers.
    assert through("lock", "locks") >= off.states["lock"].count - 1
    assert through("sleep", "sleeps") > 0 == through("lock", "sleeps")
    frames = {frame for stack in stacks for frame in stack.frames}
    assert not [frame for frame in frames if "bpf" in frame], "the tracer's own frames"
    assert "__schedule_[k]" in frames
    # A name that is no name splits no line.
    lines = (tmp_path / "offcpu.folded").read_bytes().splitlines()
    assert sum(int(line.rpartition(b" ")[2]) for line in lines) == off.off_ns


def test_threads_started_and_ended_in_the_window_add_up(start: Start, tmp_path: Path) -> None:
    process = start("churn", "sleep")
    off = observe(process.pid, tmp_path, sleeps=0, threads=100)
    adds_up(off)
    whole = [thread for thread in off.threads if thread.started and thread.ended]
    assert len(whole) >= 64
    # Each slept ten times 2 ms. One held up on its way to sleep, its timer set, waits in another state meanwhile.
    for thread in whole:
        assert thread.cpu_ns is not None and thread.cpu_ns < thread.life_ns
        assert thread.ran_ns + sum(thread.off_ns.values()) >= 20_000_000
    assert sum(thread.off_ns["sleep"] for thread in whole) > len(whole) * 10_000_000


def test_small_maps_lose_stacks_but_no_time(start: Start, tmp_path: Path) -> None:
    """Two threads slept since before the programs were attached: they wake up once all maps are full."""
    process = start("sleep", "lock", "spin", "forever")

    def load() -> None:
        slept_and_begun(process.pid, 100)
        process.send_signal(signal.SIGSTOP)
        until(lambda: set(thread_states(process.pid).values()) == {"T"})
        process.send_signal(signal.SIGCONT)
        slept_and_begun(process.pid, 10)

    off = observe_load(process.pid, tmp_path, load, map_entries=6)
    assert off.losses["lost_stack"] + off.losses["lost_sum"] > 0
    assert off.losses["lost_thread"] == 0
    assert abs(off.ran_ns + off.off_ns - off.elapsed_ns) <= 0.02 * off.elapsed_ns
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    lost = sum(stack.ns for stack in stacks if "[lost stack]" in stack.frames)
    assert 0 < lost == off.stacks.lost_ns
    assert sum(stack.ns for stack in stacks) == off.off_ns
    assert [check for check in off.checks() if check.name == "off-CPU: losses"]


def test_lost_threads_are_a_failed_check(start: Start, tmp_path: Path) -> None:
    process = start("churn", "sleep", "lock")
    off = observe(process.pid, tmp_path, threads=8, map_entries=2)
    assert off.losses["lost_thread"] > 0
    assert Verdict.FAILED in {check.verdict for check in off.checks()}


def test_the_waker_stands_on_what_it_woke(start: Start, tmp_path: Path) -> None:
    process = start("lock", "sleep")
    off = observe(process.pid, tmp_path, sleeps=200, waker=True)
    adds_up(off)
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")

    def wakers(state: str) -> list[OffStack]:
        return [stack for stack in stacks if stack.state == state and "[woken by]" in stack.frames]

    locks, seen = wakers("lock"), 0
    for stack in locks:
        place = stack.frames.index("[woken by]")
        # Upside down: the waker's own frames, its name last.
        if "locks" in stack.frames[:place] and "locks" in stack.frames[place:]:
            assert stack.frames[-1] == "[waker waiting]"
            seen += stack.count
    # But for a wait of before the window, which has no callers, and one that had not ended.
    assert seen >= off.states["lock"].count - 2 > 0
    assert any(stack.frames[-1] == "[interrupt]" for stack in wakers("sleep"))


def test_run_queue_waits_are_those_of_the_scheduler(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "spin", "churn")
    queue = queue_of(process.pid, tmp_path, lambda: slept_and_begun(process.pid, 500, 100))
    assert not failed(queue.checks())
    # Each sleep that ended has had its wait.
    assert queue.waits["woken"].count > 300
    assert queue.waits["started"].count >= 64
    for wait in queue.waits.values():
        assert sum(count for _, _, count in wait.buckets) == wait.count
    assert queue.voluntary >= 500


def test_run_queue_waits_are_those_of_the_turns(engine: Standin, tmp_path: Path) -> None:
    """Of one thread that has its CPU for orders alone: the kernel's own count of its switches."""
    out, seen = tmp_path / "queue.json", list[int]()

    def load() -> None:
        before = switches(engine.pid)
        engine.query(f"1 {FEW}")
        seen.append(switches(engine.pid) - before)

    in_turns(lambda children: run_queue_observer(children, engine.pid, out, turns=True), load)
    queue = read_run_queue(out)
    assert len(queue.turns) == 3 and not failed(queue.checks())
    # Every second load is between two turns. It is asleep before an order, and again soon after its answer.
    within = sum(seen[1::2])
    # A few switches are between an answer and its sleep, or beside a thread of process 1, which nobody sees.
    few = 3 * 2 + within // 50
    assert len(seen) == 7 and within <= queue.voluntary + queue.involuntary <= within + few
    waits = sum(wait.count for wait in queue.waits.values())
    assert within - few <= waits + queue.losses["no_start"] <= within + few
    # No wait spans what is between two turns.
    assert all(wait.sum_ns <= queue.seconds * 1e9 for wait in queue.waits.values())


def test_a_full_map_of_waits_is_told(start: Start, tmp_path: Path) -> None:
    process = start("sleep", "lock", "churn")
    queue = queue_of(process.pid, tmp_path, lambda: slept_and_begun(process.pid, 50, 8), map_entries=1)
    assert queue.losses["lost_thread"] > 0
    assert Verdict.FAILED in {check.verdict for check in queue.checks()}


@pytest.mark.needs("bpftrace", "unshare")
def test_a_script_prints_what_its_head_says(start: Start) -> None:
    """As a user runs it; in a mount namespace of its own, tracefs where the host has not mounted it."""
    tracefs = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing"
    words = ["bpftrace", str(script("runqlat")), str(start("sleep", "lock").pid), "1"]
    argv = ["unshare", "--mount", "sh", "-c", f'{tracefs}; exec "$@"', "sh", *words]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0 and "@woken_us" in done.stdout, done.stderr
