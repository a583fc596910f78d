from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import HostError, MeasurementError, UsageError
from ground.system.process import Children, capture, interruptible, tool_path


def alive(pid: int) -> bool:
    """Running: neither gone nor a zombie that its parent has still to reap."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def words_of(cmdline: Path) -> list[str]:
    try:
        return cmdline.read_text(errors="replace").split("\0")
    except OSError:
        return []


def test_leaving_the_block_stops_what_still_runs_the_newest_first() -> None:
    with Children() as children:
        first = children.start("first", ["sleep", "1000"])
        second = children.start("second", ["sleep", "1000"])
        assert alive(first.pid)
        assert alive(second.pid)
    assert first.returncode == second.returncode == -signal.SIGTERM
    assert first.ended is not None
    assert second.ended is not None
    assert second.ended <= first.ended


class Interrupting(list[str]):
    """A command line during whose reading the user presses Ctrl-C."""

    def __iter__(self) -> Iterator[str]:
        signal.raise_signal(signal.SIGINT)
        return super().__iter__()


def test_a_child_that_is_started_while_a_signal_comes_is_stopped_with_the_others() -> None:
    children = Children()
    with pytest.raises(KeyboardInterrupt), interruptible(), children:
        children.start("sleeper", Interrupting(["sleep", "1000"]))
    (child,) = children
    assert child.returncode == -signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)


def test_children_are_stopped_when_the_block_raises() -> None:
    children = Children()
    with pytest.raises(MeasurementError), children:
        child = children.start("sleeper", ["sleep", "1000"])
        raise MeasurementError("something failed")
    assert not alive(child.pid)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    code = (
        "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('{}','w').write('x')\ntime.sleep(1000)"
    )
    child = Children().start("stubborn", [sys.executable, "-c", code.format(said)])
    assert said.read_text() == "x"  # returns once the child ignores the signal
    assert child.stop(grace=0.2) == -signal.SIGKILL
    assert child.describe_end() == "killed by SIGKILL"


def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    code = (
        "from ground.system.process import Children\nimport time\n"
        f"c = Children().start('c', ['sleep', '1000'])\nopen({str(pids)!r}, 'w').write(str(c.pid))\ntime.sleep(1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid = int(pids.read_text())
    # A pidfd tells of the end of a process that is not ours to wait for.
    handle = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    ended, _, _ = select.select([handle], [], [], 10)
    os.close(handle)
    assert ended


# Each starts $SLEEPER, which says its own pid and then sleeps, in another way.
WRAPPERS = {
    "as a child that is waited for": "sh -c $SLEEPER; :",
    "in the background, and ends itself": "sh -c $SLEEPER &",
    "in a session of its own": "setsid sh -c $SLEEPER &",
    "below a wrapper of its own": "sh -c 'sh -c $SLEEPER; :' & wait",
    "deaf to what asks it to end": "trap '' TERM; sh -c $SLEEPER; :",
}


def wrapped(script: str, said: Path) -> list[str]:
    os.mkfifo(said)
    return ["env", f"SLEEPER=echo${{IFS}}$$>{said};exec${{IFS}}sleep${{IFS}}1000", "sh", "-c", script]


@pytest.mark.slow
@pytest.mark.parametrize("script", WRAPPERS.values(), ids=WRAPPERS)
def test_what_a_wrapper_starts_ends_with_it(script: str, tmp_path: Path) -> None:
    argv = wrapped(script, tmp_path / "pid")
    with Children() as children:
        child = children.start("wrapper", argv)
        sleeper = int((tmp_path / "pid").read_text())
        assert alive(sleeper) and child.running
        child.stop(grace=1.0)
        assert not alive(sleeper)
        assert not child.running


def test_what_a_wrapper_starts_does_not_outlive_an_ioflame_that_is_killed(tmp_path: Path) -> None:
    argv = wrapped(WRAPPERS["as a child that is waited for"], tmp_path / "pid")
    code = f"from ground.system.process import Children\nimport time\nChildren().start('c', {argv!r})\ntime.sleep(1000)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    handle = os.pidfd_open(int((tmp_path / "pid").read_text()))
    parent.kill()
    parent.wait()
    ended, _, _ = select.select([handle], [], [], 10)
    os.close(handle)
    assert ended


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("exit 7", "exit code 7"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("kill -36 $$", "killed by signal 36"),
    ],
)
def test_a_child_ends_as_its_command_did(script: str, end: str) -> None:
    child = Children().start("words", ["sh", "-c", script])
    child.wait(10)
    assert child.describe_end() == end


def test_a_command_that_cannot_be_executed_says_so_where_its_errors_go(tmp_path: Path) -> None:
    child = Children().start("nothing", ["/no/such/tool"], stderr=tmp_path / "err")
    assert child.wait(10) == 127
    assert (tmp_path / "err").read_text() == "/no/such/tool cannot be started: No such file or directory\n"


def test_a_command_is_found_once_in_the_list_of_processes() -> None:
    """Whoever looks for db_bench by its command line is to find db_bench, and not what watches over it."""
    mark = f"mark-of-{os.getpid()}"
    with Children() as children:
        # One process: a shell's child has the shell's command line until it is another program.
        child = children.start("one", [sys.executable, "-c", "import time; time.sleep(1000)", mark])
        found = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mark in words_of(path)]
        assert found == [str(child.pid)]


@pytest.mark.slow
def test_what_hangs_is_not_waited_for() -> None:
    with Children() as children:
        child = children.start("hanging", ["sh", "-c", "sleep 1000; :"])
        os.kill(child.pid, signal.SIGSTOP)
        assert child.wait(1000, quiet=0.2) is None
        answers, never = os.pipe()
        assert not child.await_answer(answers, 1000, quiet=0.2)
        os.close(answers)
        os.close(never)
        # A stopped process cannot act on SIGTERM: `stop` continues it.
        assert child.stop(grace=1000) == -signal.SIGTERM


@pytest.mark.slow
def test_what_works_is_waited_for() -> None:
    """For longer than it may be quiet; below a wrapper, which does nothing meanwhile."""
    code = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
    with Children() as children:
        child = children.start("busy", ["sh", "-c", f"{sys.executable} -c '{code}'; exit 3"])
        assert child.wait(1000, quiet=2.0) == 3


def test_output_goes_to_the_files_named(tmp_path: Path) -> None:
    child = Children().start(
        "words", ["sh", "-c", "echo out; echo err >&2"], stdout=tmp_path / "out", stderr=tmp_path / "err"
    )
    assert child.wait(10) == 0
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_a_failed_command_is_reported_with_its_own_words() -> None:
    with pytest.raises(MeasurementError, match=r"listing failed with exit code 3: no such thing"):
        capture(["sh", "-c", "echo no such thing >&2; exit 3"], timeout=10).require("listing")


def test_a_command_that_runs_too_long_is_ended() -> None:
    with pytest.raises(MeasurementError, match="did not end within 0 s"):
        capture(["sleep", "1000"], timeout=0.05)


@pytest.mark.slow
def test_a_command_that_runs_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """The child holds the pipes open: waiting for their end would take as long as the child does."""
    argv = wrapped(WRAPPERS["as a child that is waited for"], tmp_path / "pid")
    pids: list[int] = []
    reader = threading.Thread(target=lambda: pids.append(int((tmp_path / "pid").read_text())))
    reader.start()
    with pytest.raises(MeasurementError, match="did not end within 1 s"):
        capture(argv, timeout=1)
    reader.join()
    handle = os.pidfd_open(pids[0]) if alive(pids[0]) else None
    assert handle is None or select.select([handle], [], [], 10)[0]


def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is not installed") as caught:
        tool_path("no-such-tool", "some-package")
    assert "apt-get install some-package" in str(caught.value)
    with pytest.raises(UsageError, match="cannot be started"):
        capture(["/no/such/tool"], timeout=1)
