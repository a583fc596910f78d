"""What happens to a target, or to ioflame, in the middle of an attach: what is said of it, and what is left."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from collectors.target_counters import TargetProbe
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import Run, open_run
from ground.system.descendants import descendants
from ground.system.held_process import HeldProcess
from ground.system.target import Target
from tests.bpf import is_attached, is_loaded, programs_of, tries_the_kernel
from tests.collectors.conftest import THREADS, thread_states
from tests.conftest import Ioflame
from tests.e2e.commands import attached, endpoint, service, ticks
from tests.ebpf.conftest import SOURCES
from tests.programs import FRAMES, built
from tests.until import until

pytestmark = pytest.mark.long

_SLEEP = ["sleep", "3600"]
_BURN = [sys.executable, "-c", "while True: sum(range(1000))"]
# Hours: a test ends what it watches.
_LONG = "--seconds=36000"


class Asked:
    """The endpoint of a counter. ioflame looks at its target, and asks then: who was asked knows that it has looked."""

    def __init__(self) -> None:
        self.times = 0
        self.answers = threading.Event()
        self.answers.set()

    def __call__(self) -> bytes:
        self.times += 1
        number = self.times
        self.answers.wait()
        return f"q_total {number}\n".encode()

    def again(self, watching: subprocess.Popen[str]) -> None:
        """Returns once ioflame has begun to look at the target and has done so, since the call."""
        # The first of them may be of a look that had begun, the second of the edge of a window, without a look.
        # On a busy host each look takes long, and so comes seldom.
        until(lambda count=self.times + 3: self.times >= count, watching, seconds=900)  # type: ignore[misc]


def program(pid: int) -> Path:
    return Path(f"/proc/{pid}/exe").readlink()


def state(pid: int) -> bytes:
    return (HeldProcess(pid).stat() or [b"X"])[0]


def outcome(watching: subprocess.Popen[str], out: Path) -> tuple[int, str, Run]:
    """Exit code, what was said, and the run."""
    said, err = watching.communicate(timeout=300)
    assert (out / "latest").exists(), err
    return watching.returncode, said + err, open_run((out / "latest").resolve())


def notes(run: Run) -> list[str]:
    return [check.value for check in run.record.checks if check.name == "target"]


@pytest.fixture(scope="module")
def reborn(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(built(tmp_path_factory, SOURCES / "reborn.c", "-O1"))


@pytest.mark.needs("perf", "set_tid")
def test_another_program_a_stop_by_somebody_else_and_a_number_used_again_are_said(
    ioflame: Ioflame, tmp_path: Path, reborn: str
) -> None:
    asked = Asked()
    # It works on: a target that uses no CPU fails a check of its own.
    execs = [sys.executable, "-c", "import os; input(); os.execv('/bin/sh', ['sh', '-c', 'while :; do :; done'])"]
    with contextlib.ExitStack() as around:
        changing = around.enter_context(service(execs, stdin=subprocess.PIPE))
        still, ending = (around.enter_context(service(_SLEEP)) for _ in range(2))
        url = around.enter_context(endpoint(asked))
        words = [f"--pid={one.pid}" for one in (changing, still, ending)]
        words += [_LONG, "--collect=null", "--count-prometheus", url, "q_total", "--out", str(tmp_path)]
        watching = ioflame.start("attach", *words)
        asked.again(watching)
        before = program(changing.pid)
        assert changing.stdin is not None
        changing.stdin.write(b"go\n")
        changing.stdin.close()
        still.send_signal(signal.SIGSTOP)
        until(lambda: program(changing.pid) != before and state(still.pid) == b"T")
        ending.kill()
        ending.wait()
        around.enter_context(service([reborn, str(ending.pid), *_SLEEP]))
        until(lambda: Path(f"/proc/{ending.pid}").exists(), watching)
        asked.again(watching)
        after = program(changing.pid)
        assert state(still.pid) == b"T"  # we do not meddle
        changing.kill()
        still.kill()
        code, said, run = outcome(watching, tmp_path)
    assert code in (0, 1), said
    assert run.record.target is not None and run.record.target.pids == [changing.pid, still.pid]
    assert notes(run) == [
        "it ended while it was watched",
        f"process {changing.pid} executed another program meanwhile: {before} became {after}",
        f"process {ending.pid} ended, and another one got its number: no samples of either are shown",
        f"somebody stopped it meanwhile (state T): process {still.pid}",
    ]


@pytest.mark.needs("perf")
def test_members_that_come_and_go_are_followed_also_without_their_group(
    ioflame: Ioflame, tmp_path: Path, group: Path
) -> None:
    asked = Asked()
    with contextlib.ExitStack() as around:
        first = around.enter_context(service(_SLEEP))
        url = around.enter_context(endpoint(asked))
        (group / "cgroup.procs").write_text(str(first.pid), encoding="ascii")
        words = (_LONG, "--collect=null", "--count-prometheus", url, "q_total", "--out", tmp_path)
        watching = ioflame.start("attach", "--cgroup", str(group), *words)
        asked.again(watching)
        second = around.enter_context(service(_BURN))
        (group / "cgroup.procs").write_text(str(second.pid), encoding="ascii")
        until(lambda: ticks(second.pid) > 20)
        asked.again(watching)
        first.kill()
        first.wait()
        asked.again(watching)
        (group.parent / "cgroup.procs").write_text(str(second.pid), encoding="ascii")
        group.rmdir()
        asked.again(watching)
        second.kill()
        code, said, run = outcome(watching, tmp_path)
    assert code in (0, 1), said
    assert run.record.target is not None and run.record.target.pids == [first.pid, second.pid]
    assert run.record.windows[0].counters.cpu_ns > 10**8  # of the second
    vanished = "its control group was removed; the processes that were in it were watched on"
    assert set(notes(run)) == {"it ended while it was watched", vanished}


_FAULT = [sys.executable, "-c", "import mmap\nwhile True: mmap.mmap(-1, 1 << 20)[::4096] = bytes(256)"]


@pytest.mark.needs("perf")
def test_who_joins_a_group_in_its_window_is_sampled_by_any_event(ioflame: Ioflame, tmp_path: Path, group: Path) -> None:
    with service(_FAULT) as first, service(_FAULT) as second:
        (group / "cgroup.procs").write_text(str(first.pid), encoding="ascii")
        # Page faults are counted by process on every host, as cycles are.
        words = ("--seconds=12", "--collect=perf", "--event=page-faults", "--freq=199", "--out", str(tmp_path))
        watching = ioflame.start("attach", "--cgroup", str(group), *words)
        # Whom perf is to watch was said when it was started.
        until(lambda: list(tmp_path.glob(f"*/{Files.PERF_DATA}")), watching)
        (group / "cgroup.procs").write_text(str(second.pid), encoding="ascii")
        # Both run until the window's own end: when perf begins to count, nobody outside of it can know.
        code, said, run = outcome(watching, tmp_path)
    assert code in (0, 1), said
    assert run.record.profile is not None and run.record.profile.scope == "system"
    assert set(read_profile(run.path(Files.PROFILE)).threads.pid) == {first.pid, second.pid}


@pytest.mark.needs("perf")
def test_an_endpoint_that_hangs_fails_the_count_alone(ioflame: Ioflame, tmp_path: Path) -> None:
    asked = Asked()
    with service(_BURN) as process, endpoint(asked) as url:
        words = (f"--pid={process.pid}", _LONG, "--collect=null", "--out", tmp_path)
        watching = ioflame.start("attach", *words, "--count-prometheus", url, "q_total")
        until(lambda: asked.times > 1, watching)  # its first window has begun
        asked.answers.clear()
        process.kill()  # it is asked at the end of the window
        code, said, run = outcome(watching, tmp_path)
        asked.answers.set()
    (count,) = (check for check in run.record.checks if check.name == "count")
    assert (code, count.verdict) == (1, Verdict.FAILED), said
    assert count.value == f"{url} does not answer: timed out" and "not known to the end" in count.means


@pytest.mark.needs("perf")
def test_a_target_that_does_nothing_is_told_from_one_that_works(tmp_path: Path) -> None:
    with service(_SLEEP) as process:
        done = attached(tmp_path, [process.pid], "--seconds=5", "--collect=perf")
    failed = {name: check.value for name, check in done.checks.items() if check.verdict is Verdict.FAILED}
    assert done.code == 1 and failed["samples"] == "none" and "samples passed --only-pid" in failed["perf"]
    assert done.run.path(Files.REPORT).exists()


@pytest.mark.needs("set_tid")
def test_who_gets_the_number_of_a_process_that_ended_is_none_of_the_target(reborn: str) -> None:
    with service(_SLEEP) as first, service(_SLEEP) as other:
        target = Target([first.pid, other.pid])
        probe = TargetProbe(target, None, lambda _, name: name)
        probe.snapshot()
        first.kill()
        first.wait()
        assert target.reused == []
        # `service` ends what has the number: waiting has told it that the first one is gone.
        with service([reborn, str(first.pid), *_BURN]):
            until(lambda: Path(f"/proc/{first.pid}").exists())
            until(lambda: ticks(first.pid) > 5)
            after = probe.snapshot()
            assert target.reused == [first.pid] and target.running == [other.pid]
            assert sum(task.cpu_ns for task in after.tasks.values()) < 10**7
            assert after.user_ticks == 0


def tracers(pid: int) -> set[int]:
    """Who traces any of its threads."""
    texts = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return {int(found) for text in texts for found in re.findall(r"^TracerPid:\s*(\d+)", text, re.M)} - {0}


# One of each way to watch: a recording, ptrace, tracepoints, uprobes, bpftrace, and a command of the user's.
_WATCHERS = {
    "perf": ("--collect=perf",),
    "pmp": ("--collect=pmp",),
    "offcpu": ("--collect=offcpu",),
    "ladder": ("--collect=ladder",),
    "calls": ("--count-symbol=Py_BytesMain", "--collect=null"),
    "hanging count": ("--collect=null",),
}
# It answers twice; then what it started waits for hours, in a session of its own and in ours.
_HANGS = (
    "cd {} && echo >>asked; wc -l <asked; test $(wc -l <asked) -lt 3 || {{ setsid sleep 9999 & >hung; sleep 9999; }}"
)


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command line of queries of RocksDB without an end, as the ladder knows them, once it reads "go"."""
    data = tmp_path_factory.mktemp("data") / "data"
    data.write_bytes(bytes(1 << 20))
    return [str(built(tmp_path_factory, SOURCES / "standin.cc", "-O1", "-DSHAPE=1", "-pthread")), str(data)]


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command line of a thread in state D until it reads a byte: asked to stop, it has a tracer until then.

    A thread that runs is traced for microseconds, which nobody who looks from outside would see for sure.
    """
    return [str(built(tmp_path_factory, THREADS, *FRAMES, "-pthread")), "stuck"]


@pytest.mark.needs("perf", "co-re", "bpftrace")
@pytest.mark.parametrize("watcher", _WATCHERS)
def test_nothing_of_ours_is_left_when_ioflame_is_killed(
    ioflame: Ioflame, tmp_path: Path, watcher: str, request: pytest.FixtureRequest
) -> None:
    target_of = {"ladder": "standin", "pmp": "stuck"}
    argv: list[str] = request.getfixturevalue(target_of[watcher]) if watcher in target_of else _BURN
    with service(argv, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        if watcher == "ladder":
            process.stdin.write(b"go\n")
            process.stdin.flush()
        groups = Path(f"/proc/{process.pid}/cgroup").read_bytes()
        words = ["--seconds=24", *_WATCHERS[watcher], "--out", str(tmp_path)]
        words += [f"--count={_HANGS.format(shlex.quote(str(tmp_path)))}"] if watcher == "hanging count" else []
        watching = ioflame.start("attach", "--pid", str(process.pid), *words)

        def at_work() -> bool:
            if watcher == "perf":
                return any(path.stat().st_size > 20_000 for path in tmp_path.glob(f"*/{Files.PERF_DATA}"))
            if watcher == "pmp":
                return bool(tracers(process.pid))
            if watcher == "hanging count":
                return (tmp_path / "hung").exists()
            # What tries the kernel before (`ioflame-ebpf needs`) watches a function of its own for a moment, too.
            return any(is_attached(pid) for pid in descendants([watching.pid])[1:] if not tries_the_kernel(pid))

        until(lambda: list(tmp_path.glob(f"*/{Files.RECORD}")), watching)  # it has looked at the host
        until(at_work, watching)
        ours = descendants([watching.pid])
        programs, held = programs_of(ours), [HeldProcess(pid) for pid in ours]
        watching.kill()
        watching.communicate()
        until(lambda: not any(one.alive for one in held) and not ioflame.left_behind())
        until(lambda: not any(is_loaded(program) for program in programs))
        if watcher == "pmp":  # back from D, it is not to stop for who is gone
            process.stdin.write(b"x")
            process.stdin.flush()
            until(lambda: "D" not in thread_states(process.pid).values())
        until(lambda: not {"T", "t"} & set(thread_states(process.pid).values()))
        assert len(held) > 1 and bool(programs) == (watcher not in ("perf", "pmp", "hanging count"))
        assert not tracers(process.pid)
        assert Path(f"/proc/{process.pid}/cgroup").read_bytes() == groups
        events = Path("/sys/kernel/tracing/uprobe_events")
        assert not events.exists() or argv[0] not in events.read_text(encoding="utf-8")
        assert process.poll() is None


@pytest.mark.needs("perf", "unshare")
@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
def test_the_windows_before_the_disk_was_full_are_kept(
    ioflame: Ioflame, small_disk: Path, burner: subprocess.Popen[str]
) -> None:
    # Copies of stacks fill it with 64 samples.
    how = ("--seconds=8", "--collect=perf", "--callgraph=dwarf", "--freq=999", f"--out={small_disk}")
    code, _, err = ioflame.run("attach", f"--pid={burner.pid}", *how)
    (directory,) = small_disk.iterdir()
    assert (code, f"is kept in {directory}" in err, "No space left on device" in err) == (3, True, True), err
    run = open_run(directory)
    assert [window.kind for window in run.record.windows] == ["plain"]
    assert run.record.missing == ["the perf window"] and run.series()
