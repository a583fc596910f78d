from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioflame.errors import HostError, MeasurementError, UsageError
from ioflame.process import Children, capture, interruptible, tool_path


def alive(pid: int) -> bool:
    """Running: neither gone nor a zombie that its parent has still to reap."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
        "from ioflame.process import Children\nimport time\n"
        f"c = Children().start('c', ['sleep', '1000'])\nopen({str(pids)!r}, 'w').write(str(c.pid))\ntime.sleep(1000)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid = int(pids.read_text())
    # A pidfd tells of the end of a process that is not ours to wait for.
    handle = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    import select

    ended, _, _ = select.select([handle], [], [], 10)
    os.close(handle)
    assert ended


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


def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(HostError, match="no-such-tool is not installed") as caught:
        tool_path("no-such-tool", "some-package")
    assert "apt-get install some-package" in str(caught.value)
    with pytest.raises(UsageError, match="cannot be started"):
        capture(["/no/such/tool"], timeout=1)
