"""The ladder from the read call on, of fio's ways to read: what is followed is all there is, or it is said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ground.results.checks import Check, Verdict
from ground.results.ladder import STAGES, Ladder, read_ladder
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from viz.terminal.ladder import ladder_text

pytestmark = [pytest.mark.needs("co-re"), pytest.mark.needs("fio")]

_FEW = 509
_FROM_THE_READ_CALL = list(STAGES)[2:8]


@pytest.fixture
def waiting_fio(data: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process that becomes fio (exec) once it reads its options: its pid is known before."""
    code = (
        "import os, sys\n"
        "options = sys.stdin.readline().split()\n"
        f"os.execvp('fio', ['fio', '--name=a', '--filename={data}', '--rw=randread', '--bs=8k', '--size=16m', "
        "'--direct=1', '--thread', '--output-format=terse', *options])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def follow(fio: subprocess.Popen[str], out: Path, backend: str, *options: str) -> Ladder:
    """The ladder of all that fio reads."""
    with Children() as children:
        request = LadderRequest(fio.pid, 1, "syscall", backend=backend)
        observer = ladder_observer(request, children, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            _, errors = fio.communicate(" ".join((*options, f"--number_ios={_FEW}")) + "\n")
            observer.close()
    assert fio.returncode == 0, errors
    return read_ladder(out)


def check(ladder: Ladder, name: str) -> Check:
    return next(check for check in ladder_checks(ladder) if check.name == name)


_BACKENDS = ["co-re", pytest.param("bpftrace", marks=pytest.mark.needs("bpftrace"))]


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("engine", ["psync", "pvsync", "pvsync2"])
def test_every_read_call_is_followed(
    waiting_fio: subprocess.Popen[str], tmp_path: Path, engine: str, backend: str
) -> None:
    ladder = follow(waiting_fio, tmp_path / "ladder.json", backend, f"--ioengine={engine}")
    # fio reads a file of its own or two, with read or pread64, while it starts.
    on_device = sum(ladder.of_class(name).count for name in ("one_read", "awake", "disorder"))
    assert _FEW <= ladder.finished <= _FEW + 20
    assert on_device >= _FEW
    # On busy processors requests end before their thread sleeps, up to all of them: they are counted, as "awake", and
    # not split into stages.
    assert ladder.total.count <= on_device
    assert [rung.name for rung in ladder.stages] == _FROM_THE_READ_CALL
    assert {rung.count for rung in ladder.stages} == {ladder.total.count}
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns
    assert ladder.losses["async_calls"] == 0
    assert "starts at the read call" in ladder_text(ladder)


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_what_no_call_waits_for_is_said_to_be_unobserved(
    waiting_fio: subprocess.Popen[str], tmp_path: Path, engine: str, backend: str
) -> None:
    ladder = follow(waiting_fio, tmp_path / "ladder.json", backend, f"--ioengine={engine}", "--iodepth=4")
    assert sum(ladder.of_class(name).count for name in ("one_read", "several")) < 20
    assert ladder.losses["async_calls"] > 0
    unobserved = check(ladder, "ladder unobserved")
    assert unobserved.verdict is Verdict.WARN and "read calls" in unobserved.means
