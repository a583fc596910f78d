"""The control protocol as each program that speaks it does, and observers that fail or are waited for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ebpf.observer import loader_binary
from ground.errors import MeasurementError, UsageError
from ground.system.binaries import built_binary
from ground.system.control import ControlledProgram
from ground.system.observer import NullObserver, attached
from ground.system.process import Children
from ground.system.run_module import module_argv
from ground.text.progress import Reporter
from tests.until import until

_PROGRAMS = [
    pytest.param("loader", marks=[pytest.mark.long, pytest.mark.needs("co-re")]),
    "stacksampler",
    pytest.param("gdb", marks=[pytest.mark.long, pytest.mark.needs("gdb")]),
]


_IN_TURNS = _PROGRAMS[:-1]


def command(program: str, pid: int, directory: Path) -> tuple[list[str], Path]:
    """Its command line, and the file that is there once it has ended well."""
    if program == "loader":
        return [str(loader_binary()), "runqlat", f"--pid={pid}", f"--output={directory / 'out'}"], directory / "out"
    if program == "stacksampler":
        files = [f"--output={directory / 'data'}", f"--stats={directory / 'out'}"]
        return [str(built_binary("stacksampler")), f"--pid={pid}", *files], directory / "out"
    argv = [*module_argv("collectors.pmp_gdb"), f"--pid={pid}", "--hz=20", "--budget-ms=1e6", "--force"]
    return [*argv, f"--directory={directory}"], directory / "pmp.sampler.json"


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_window_has_its_edges_and_its_file(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, program: str
) -> None:
    argv, out = command(program, burner.pid, tmp_path)
    running = ControlledProgram(children, program, argv, tmp_path / "log")
    running.await_ready()
    before = time.monotonic_ns()
    opened, closed = running.open(), running.close()
    assert before <= opened <= closed <= time.monotonic_ns()
    assert running.finish() and running.finish()
    assert out.stat().st_size > 0


def test_each_answer_is_taken_once(children: Children, tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "orders, answers = map(int, sys.argv[-1].split(','))\n"
        "os.write(answers, b'ready 1\\nopen 2\\nclose 3\\nop')\n"
        "heard = b''\n"
        "while heard.count(b'open') < 2: heard += os.read(orders, 99)\n"
        "os.write(answers, b'en 4\\nclose 5\\n')\n"
    )
    running = ControlledProgram(children, "turner", [sys.executable, "-c", script], tmp_path / "log")
    running.await_ready()
    assert [running.open(), running.close(), running.open(), running.close()] == [2, 3, 4, 5]
    with pytest.raises(MeasurementError, match="turner did not answer open: exit code 0"):
        running.open()


def links(pid: int) -> int:
    """By which programs of this process are attached."""
    held = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
    return held.count("anon_inode:bpf_link")


def traced(pid: int) -> bool:
    told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    assert told
    return any("TracerPid:\t0\n" not in one or "State:\tt" in one for one in told)


@pytest.mark.parametrize("program", _IN_TURNS)
def test_turns_are_taken_until_the_orders_end(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, program: str
) -> None:
    argv, out = command(program, burner.pid, tmp_path)
    running = ControlledProgram(children, program, [*argv, "--turns"], tmp_path / "log")
    running.await_ready()
    turns = []
    for _ in range(3):
        assert links(running.child.pid) == 0 and not traced(burner.pid)
        opened = running.open()
        assert program == "stacksampler" or links(running.child.pid) > 0
        turns.append([opened, running.close()])
    assert links(running.child.pid) == 0 and not traced(burner.pid)
    assert running.finish()
    found = json.loads(out.read_text())
    assert found["turns"] == turns and (found["start_ns"], found["end_ns"]) == (turns[0][0], turns[-1][1])


@pytest.mark.parametrize("program", _IN_TURNS)
@pytest.mark.parametrize("orders", ["", "open", "open close", "open close open"])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_is_ended_in_any_turn_leaves_nothing_behind(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, program: str, orders: str, sent: signal.Signals
) -> None:
    argv, out = command(program, burner.pid, tmp_path)
    running = ControlledProgram(children, program, [*argv, "--turns"], tmp_path / "log")
    running.await_ready()
    for order in orders.split():
        getattr(running, order)()
    os.kill(running.child.pid, sent)
    running.child.wait(60)
    assert running.child.returncode == (-sent if sent == signal.SIGKILL else int(not orders))
    with pytest.raises(MeasurementError, match="did not answer open"):
        running.open()
        running.close()
        running.open()
    # With SIGTERM it has completed the turns that there were, and says that they end with it.
    written = out.exists() and out.stat().st_size > 0
    assert written == (bool(orders) and sent == signal.SIGTERM)
    assert not written or json.loads(out.read_text())["end_ns"] <= time.monotonic_ns()
    assert not traced(burner.pid)


@pytest.mark.parametrize("program", _PROGRAMS)
@pytest.mark.parametrize("opened", [True, False])
def test_whoever_orders_may_be_gone(burner: subprocess.Popen[str], tmp_path: Path, program: str, opened: bool) -> None:
    argv, out = command(program, burner.pid, tmp_path)
    order_read, orders = os.pipe()
    answers, answer_write = os.pipe()
    argv += ["--control", f"{order_read},{answer_write}"]
    running = subprocess.Popen(argv, pass_fds=(order_read, answer_write), stderr=subprocess.PIPE, text=True)
    os.close(order_read)
    os.close(answer_write)
    with os.fdopen(answers) as lines:
        assert lines.readline().startswith("ready ")
        if opened:
            os.write(orders, b"open\n")
            assert lines.readline().startswith("open ")
    os.close(orders)
    _, errors = running.communicate()
    assert (running.returncode, errors) == (0, "") if opened else running.returncode == 1
    assert opened or "the window was never opened" in errors
    assert (out.exists() and out.stat().st_size > 0) == opened


def test_a_refusal_says_what_it_means_and_what_mends_it(children: Children, tmp_path: Path) -> None:
    words = "it is red\\n  meaning: not green\\n  fix: paint it"
    for code, kind, mend in [(2, UsageError, "paint it"), (1, MeasurementError, "paint it")]:
        script = f"import sys; print('{words}', file=sys.stderr); sys.exit({code})"
        running = ControlledProgram(children, "painter", [sys.executable, "-c", script], tmp_path / "log")
        with pytest.raises(kind, match=r"it is red \(painter failed to start: exit code") as caught:
            running.await_ready()
        assert (caught.value.means, caught.value.mend) == ("not green", mend)
        assert not running.finish(), "it has been said"


def test_one_that_is_killed_while_it_writes_has_failed(children: Children, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "orders, answers = map(int, sys.argv[-1].split(','))\n"
        "os.write(answers, b'ready 1\\nopen 2\\nclose 3\\n')\n"
        "while os.read(orders, 9): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    argv = [sys.executable, "-c", script]
    running = ControlledProgram(children, "writer", argv, tmp_path / "log", mend="read the log")
    running.await_ready()
    assert (running.open(), running.close()) == (2, 3)
    with pytest.raises(MeasurementError, match="writer failed: killed by SIGKILL") as caught:
        running.finish()
    assert caught.value.mend == "read the log"


class Failing(NullObserver):
    """An observer that fails when it is ended early, as a tracer that has got no orders."""

    def __init__(self) -> None:
        self.detached = 0

    def detach(self) -> None:
        self.detached += 1
        raise MeasurementError("the tracer failed")


def test_what_went_wrong_first_is_what_is_raised() -> None:
    failing = Failing()
    with pytest.raises(KeyboardInterrupt), attached(failing, Reporter(quiet=True)):
        raise KeyboardInterrupt
    assert failing.detached == 1


def test_what_fails_at_the_end_is_raised() -> None:
    failing = Failing()
    with pytest.raises(MeasurementError, match="the tracer failed"), attached(failing, Reporter(quiet=True)):
        pass
    assert failing.detached == 1


class Slow(NullObserver):
    """Attaches and ends only once somebody has said that this is waited for."""

    def __init__(self, said: Callable[[], str]) -> None:
        self._said = said

    def _wait_for(self, words: str) -> None:
        until(lambda: words in self._said())

    def attach(self) -> None:
        self._wait_for("waiting for empty to attach")

    def detach(self) -> None:
        self._wait_for("waiting for empty to end")


def test_what_is_waited_for_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ground.text.progress._PATIENCE_SECONDS", 0.05)
    with attached(Slow(lambda: capsys.readouterr().err), Reporter()):
        pass


def test_what_is_soon_over_is_not_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    with attached(NullObserver(), Reporter()):
        pass
    assert capsys.readouterr().err == ""
