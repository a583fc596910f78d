"""The control protocol as each program that speaks it does: the loader, the sampler, gdb's sampler."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ebpf.observer import loader_binary
from ground.errors import MeasurementError, UsageError
from ground.system.binaries import built_binary
from ground.system.control import ControlledProgram
from ground.system.process import Children
from ground.system.run_module import module_argv

_PROGRAMS = [
    pytest.param("loader", marks=pytest.mark.needs("co-re")),
    "stacksampler",
    pytest.param("gdb", marks=pytest.mark.needs("gdb")),
]


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
def test_a_window_has_its_edges_and_its_file(burner: subprocess.Popen[str], tmp_path: Path, program: str) -> None:
    argv, out = command(program, burner.pid, tmp_path)
    with Children() as children:
        running = ControlledProgram(children, program, argv, tmp_path / "log")
        running.await_ready()
        before = time.monotonic_ns()
        opened, closed = running.open(), running.close()
        assert before <= opened <= closed <= time.monotonic_ns()
        assert running.finish() and running.finish()
    assert out.stat().st_size > 0


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


def test_a_refusal_says_what_it_means_and_what_mends_it(tmp_path: Path) -> None:
    words = "it is red\\n  meaning: not green\\n  fix: paint it"
    for code, kind, mend in [(2, UsageError, "paint it"), (1, MeasurementError, "paint it")]:
        script = f"import sys; print('{words}', file=sys.stderr); sys.exit({code})"
        with Children() as children:
            running = ControlledProgram(children, "painter", [sys.executable, "-c", script], tmp_path / "log")
            with pytest.raises(kind, match=r"it is red \(painter did not answer ready: exit code") as caught:
                running.await_ready()
            assert (caught.value.means, caught.value.mend) == ("not green", mend)
            assert not running.finish(), "it has been said"


def test_one_that_is_killed_while_it_writes_has_failed(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "orders, answers = map(int, sys.argv[-1].split(','))\n"
        "os.write(answers, b'ready 1\\nopen 2\\nclose 3\\n')\n"
        "while os.read(orders, 9): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with Children() as children:
        argv = [sys.executable, "-c", script]
        running = ControlledProgram(children, "writer", argv, tmp_path / "log", mend="read the log")
        running.await_ready()
        assert (running.open(), running.close()) == (2, 3)
        with pytest.raises(MeasurementError, match="writer failed: killed by SIGKILL") as caught:
            running.finish()
        assert caught.value.mend == "read the log"
