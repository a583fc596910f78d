"""Which numbers a process can have; processes that are stopped, and never for good."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.system.held_process import HeldProcess, process_number
from ground.system.process import Children
from tests.until import until


def test_a_number_that_a_process_can_have() -> None:
    assert process_number("1") == 1
    assert process_number("4194304") == 4194304


@pytest.mark.parametrize(
    "text",
    ["0", "4194305", "99999999999", "9" * 5000, "-3", " 3", "1_0", "1e3", "", "self", "\N{ARABIC-INDIC DIGIT ONE}"],
)
def test_one_that_none_can_have_is_named(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"no process|not the number") as refused:
        process_number(text)
    assert len(str(refused.value)) < 200 or not text.isdigit()


@pytest.mark.parametrize("pid", [99_999_999_999, 1 << 70, -1])
def test_holding_what_is_not_there(pid: int) -> None:
    with pytest.raises(UsageError, match="there is no process"):
        HeldProcess(pid)


# Two threads that burn CPU, and a first line once they do.
BURNS = """
import sys, threading
def burn():
    while True: pass
threading.Thread(target=burn, daemon=True).start()
open(sys.argv[1], "w").write("burning")
burn()
"""


def ran_ns(held: HeldProcess) -> int:
    return sum(int(held.path(f"task/{tid}/schedstat").read_text().split()[0]) for tid in held.threads())


def test_a_stopped_process_stands_still_with_all_its_threads_and_goes_on(tmp_path: Path) -> None:
    burning = tmp_path / "burning"
    os.mkfifo(burning)
    with Children() as children:
        child = children.start("burner", [sys.executable, "-c", BURNS, str(burning)])
        assert burning.read_text() == "burning"
        held = HeldProcess(child.pid)
        held.stop()
        assert [held.stat(tid)[0] for tid in held.threads()] == [b"T", b"T"]
        before = ran_ns(held)
        # Who is stopped may have had a last moment on its CPU.
        assert ran_ns(held) - before < 1_000_000
        assert held.go_on()
        until(lambda: ran_ns(held) >= before + 1_000_000, as_long_as=lambda: held.alive)
        held.stop()
    # Asked to end while it was stopped, and continued so that it can.
    assert child.returncode == -signal.SIGTERM
    assert not held.go_on()


# Starts a child, stops it, says its own pid and those of child and supervisor.
STOPS = """
import sys, time
from pathlib import Path
from ground.system.held_process import HeldProcess
from ground.system.process import Children
child = Children().start("sleeper", ["sleep", "1000"])
HeldProcess(child.pid).stop()
supervisor = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1]
open(sys.argv[1], "w").write(f"{child.pid} {supervisor}")
time.sleep(1000)
"""


@pytest.mark.parametrize("first", ["ioflame", "its supervisor, then ioflame"])
def test_whoever_is_killed_nothing_stays_stopped(tmp_path: Path, first: str) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    # A session of its own, as a terminal gives one: who inherits the child is of another.
    parent = subprocess.Popen([sys.executable, "-c", STOPS, str(said)], start_new_session=True)
    child, supervisor = map(int, said.read_text().split())
    held = HeldProcess(child)
    if first != "ioflame":
        os.kill(supervisor, signal.SIGKILL)
    parent.kill()
    parent.wait()
    until(lambda: not held.alive)


# Behind another root, until its input ends.
ELSEWHERE = "import os, sys; os.chroot(sys.argv[1]); print('begun', flush=True); sys.stdin.read()"


@pytest.mark.needs("unshare")
def test_a_file_is_the_one_that_the_process_sees_whatever_links_say(tmp_path: Path) -> None:
    outside, inside = tmp_path / "data", tmp_path / "root" / str(tmp_path).lstrip("/") / "data"
    for place, text in ((outside, "ours"), (inside, "theirs")):
        place.mkdir(parents=True)
        (place / "perf-1.map").write_text(text)
    # To a file of ours, for whoever follows it from here.
    (tmp_path / "root" / "tmp").symlink_to(outside)
    (inside / "link.map").symlink_to(outside / "perf-1.map")
    os.mkfifo(inside / "pipe.map")
    argv = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "root")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        held = HeldProcess(process.pid)
        assert held.path("root/tmp/perf-1.map").read_text() == "ours"
        with held.open_inside("tmp/perf-1.map") as file:
            assert file.read() == b"theirs"
        with held.open_inside("/../../tmp/perf-1.map") as file:
            assert file.read() == b"theirs"
        with held.open_inside("tmp/pipe.map") as file:
            assert file.read() == b""
        for name in ("tmp/link.map", "tmp/none.map"):
            with pytest.raises(OSError, match=r"\.map"):
                held.open_inside(name)


def test_one_that_the_kernel_takes_away_has_no_counters() -> None:
    """Between its parent's wait and the end of its directory, stat says what the parent has by then; and then zeros."""
    for _ in range(100):
        asked, go = os.pipe()
        pid = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, asked, 0)])
        held = HeldProcess(pid)
        waits = threading.Thread(target=os.waitpid, args=(pid, 0))
        waits.start()
        os.close(asked)
        os.close(go)
        states, parents = set(), set()
        while stat := held.stat():
            states.add(stat[0])
            parents.add(int(stat[1]))
        waits.join()
        assert parents <= {os.getpid()} and b"X" not in states
