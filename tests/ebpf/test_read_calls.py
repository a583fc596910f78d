"""The ladder from the read call on, of fio's ways to read: what is followed is all there is, or it is said."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest
from ground.results.checks import Verdict
from ground.results.ladder import STAGES, Ladder
from tests.ebpf.windows import checked, ladder_of, on_device
from viz.tables.ladder import ladder_section
from viz.terminal.table import section_text

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "fio")]

_FEW = 509


@pytest.fixture
def waiting_fio(data: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that becomes fio (exec) once it reads its options: its pid is known before."""
    fio = f"fio --name=a --filename={data} --rw=randread --bs=8k --size=16m --direct=1 --thread --output-format=terse"
    argv = ["sh", "-c", f"read options; exec {fio} $options"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def follow(fio: subprocess.Popen[str], directory: Path, *options: str) -> Ladder:
    """The ladder of all that fio reads."""

    def load() -> None:
        _, errors = fio.communicate(" ".join((*options, f"--number_ios={_FEW}")) + "\n")
        assert fio.returncode == 0, errors

    return ladder_of(LadderRequest(fio.pid, 1, "syscall"), directory, load)


@pytest.mark.parametrize("engine", ["psync", "pvsync", "pvsync2"])
def test_every_read_call_is_followed(waiting_fio: subprocess.Popen[str], tmp_path: Path, engine: str) -> None:
    ladder = follow(waiting_fio, tmp_path, f"--ioengine={engine}")
    # fio reads a file of its own or two, with read or pread64, while it starts.
    assert _FEW <= ladder.finished <= _FEW + 20 and on_device(ladder) >= _FEW
    # On busy processors requests end before their thread sleeps, up to all of them: they are counted, as "awake", and
    # not split into stages.
    assert ladder.total.count <= on_device(ladder)
    assert [rung.name for rung in ladder.stages] == list(STAGES)[2:8]
    assert ladder.losses["async_calls"] == 0
    assert "starts at the read call" in section_text(ladder_section(ladder))


@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_what_no_call_waits_for_is_said_to_be_unobserved(
    waiting_fio: subprocess.Popen[str], tmp_path: Path, engine: str
) -> None:
    ladder = follow(waiting_fio, tmp_path, f"--ioengine={engine}", "--iodepth=4")
    assert sum(ladder.of_class(name).count for name in ("one_read", "several")) < 20
    assert ladder.losses["async_calls"] > 0
    unobserved = checked(ladder, "unobserved")
    assert unobserved.verdict is Verdict.WARN and "read calls" in unobserved.means
