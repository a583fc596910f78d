from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ground.errors import HostError, MeasurementError, UsageError
from ground.system.process import Children, capture, interruptible, tool_path
from tests.until import until


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


@pytest.mark.parametrize("script", WRAPPERS.values(), ids=WRAPPERS)
def test_what_a_wrapper_starts_ends_with_it(script: str, children: Children, tmp_path: Path) -> None:
    argv = wrapped(script, tmp_path / "pid")
    child = children.start("wrapper", argv)
    sleeper = int((tmp_path / "pid").read_text())
    assert alive(sleeper) and child.running
    child.stop(grace=1.0)
    assert not alive(sleeper)
    assert not child.running


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


def test_a_command_is_found_once_in_the_list_of_processes(children: Children) -> None:
    """Whoever looks for db_bench by its command line is to find db_bench, and not what watches over it."""
    mark = f"mark-of-{os.getpid()}"
    # One process: a shell's child has the shell's command line until it is another program.
    child = children.start("one", [sys.executable, "-c", "import time; time.sleep(1000)", mark])
    # The kernel closes its end of our pipe first, and gives it its command line a moment later.
    until(lambda: mark in words_of(Path(f"/proc/{child.pid}/cmdline")))
    found = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mark in words_of(path)]
    assert found == [str(child.pid)]


def test_what_hangs_is_not_waited_for(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ground.system.process._LOOK_SECONDS", 0.01)
    child = children.start("hanging", ["sh", "-c", "sleep 1000; :"])
    os.kill(child.pid, signal.SIGSTOP)
    assert child.wait(1000, quiet=0.01) is None
    answers, never = os.pipe()
    assert not child.await_answer(answers, 1000, quiet=0.01)
    os.close(answers)
    os.close(never)
    # A stopped process cannot act on SIGTERM: `stop` continues it.
    assert child.stop(grace=1000) == -signal.SIGTERM


def test_what_works_is_waited_for_until_it_has_been_quiet_for_longer(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That work below a process is its pulse is in test_proc.py."""
    quiet = iter([0.0, 7.9, 0.0, 8.0, 8.1])
    monkeypatch.setattr("ground.system.process.Pulse", lambda _: SimpleNamespace(quiet_seconds=lambda: next(quiet)))
    monkeypatch.setattr("ground.system.process._LOOK_SECONDS", 0.001)
    child = children.start("busy", ["sleep", "1000"])
    assert child.wait(1000, quiet=8.0) is None
    assert child.running and list(quiet) == []


def test_a_failed_command_is_reported_with_its_own_words() -> None:
    with pytest.raises(MeasurementError, match=r"listing failed with exit code 3: no such thing"):
        capture(["sh", "-c", "echo no such thing >&2; exit 3"], timeout=10).require("listing")


def test_a_command_that_runs_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """The child holds the pipes open: waiting for their end would take as long as the child does."""
    said, timeout = tmp_path / "pid", 0.1
    while not (said.exists() and said.read_text()):  # until it was given long enough to start its child
        with pytest.raises(MeasurementError, match=f"did not end within {timeout:.0f} s"):
            capture(["sh", "-c", f"sh -c 'echo $$ >{said}; exec sleep 1000'; :"], timeout=timeout)
        timeout *= 2
    until(lambda: not alive(int(said.read_text())))


def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is not installed") as caught:
        tool_path("no-such-tool", "some-package")
    assert "apt-get install some-package" in str(caught.value)
    with pytest.raises(UsageError, match="cannot be started"):
        capture(["/no/such/tool"], timeout=1)
