"""`ioflame top` on a terminal: what its screen shows, what q leaves, and that nothing of it outlives it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.run import open_run
from ground.system.descendants import descendants
from ground.system.held_process import HeldProcess
from tests.bpf import is_attached, is_loaded, programs_of, tries_the_kernel
from tests.conftest import Ioflame
from tests.e2e.commands import service
from tests.e2e.explained import explained
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re")]


@pytest.fixture(scope="module")
def bench(loaded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """A db_bench that reads for an hour, and writes a report."""
    report = tmp_path_factory.mktemp("bench") / "report.csv"
    (argv,) = explained("readrandom", "--scale=smoke", "--num-keys=400000", f"--db-dir={loaded}")
    own = {"--duration": "3600", "--report_file": str(report)}
    argv = [f"{name}={own[name]}" if (name := word.partition("=")[0]) in own else word for word in argv]
    with service(argv) as process:
        until(lambda: report.read_text(encoding="ascii").count("\n") >= 3, process)
        yield process
        assert process.poll() is None  # whatever ended what watched it


@dataclass
class Terminal:
    """A terminal of 80 columns and 24 lines, and what was written to it."""

    ours: int
    theirs: int
    written: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        with contextlib.suppress(OSError):  # every end of it is closed
            while piece := os.read(self.ours, 1 << 16):
                self.written += piece

    def has(self, *texts: str) -> bool:
        return all(re.search(text.encode(), self.written, re.DOTALL) for text in texts)


def below(process: subprocess.Popen[str]) -> list[int]:
    return descendants([process.pid])[1:]


@contextlib.contextmanager
def topped(ioflame: Ioflame, pid: int, out: Path) -> Iterator[tuple[subprocess.Popen[str], Terminal]]:
    terminal = Terminal(*pty.openpty())
    fcntl.ioctl(terminal.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = ioflame.start("top", str(pid), "--out", out, terminal=terminal.theirs)
    reader = threading.Thread(target=terminal.read)
    reader.start()
    try:
        yield process, terminal
    finally:
        process.kill()
        process.wait()
        os.close(terminal.theirs)
        reader.join()
        os.close(terminal.ours)


def test_the_screen_has_categories_and_qps_and_q_leaves_a_run_that_show_reads(
    ioflame: Ioflame, bench: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with topped(ioflame, bench.pid, tmp_path) as (process, terminal):
        before = termios.tcgetattr(terminal.theirs)
        # Three rounds give intervals, and are worth a run.
        # Its last line comes last.
        shown = r"queries a second: [\d,]+ \[[\d,]+, [\d,]+\]", "QPS in perf's turns", "q leaves a run"
        until(lambda: terminal.has(*shown), process)
        assert terminal.has("libc\\+k", "us/query", "schedstat:", "sst, L", "cost: [0-9.]+ ")
        os.write(terminal.ours, b"q")
        # What it analyses then has the CPU that nobody else wants.
        until(lambda: process.poll() is not None, seconds=900)
        assert process.returncode in (0, 1), terminal.written  # 1 where the host was too busy for a check
        assert termios.tcgetattr(terminal.theirs) == before
        # The screen is given back, and the run is named after it.
        until(lambda: terminal.has(r"\x1b\[\?1049l.*ioflame show"))
    assert ioflame.left_behind() == []
    assert sorted(path.name for path in tmp_path.iterdir())[1:] == ["latest"]  # one run
    run = open_run((tmp_path / "latest").resolve())
    assert sum(window.kind == "perf" for window in run.record.windows) >= 3 and run.path(Files.REPORT).exists()
    assert not run.record.missing and run.record.target is not None and run.record.target.notes == []
    assert run.record.metrics["qps"] > 0 and run.record.costs
    assert {row.name for row in read_categories(run.directory).rows if row.weight} >= {"libc+k"}
    code, said, err = ioflame.run("show", run.directory, "windows")
    assert code == 0 and "perf" in said, err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("when", ["eBPF is attached", "perf has recorded"])
def test_whatever_ends_it_nothing_of_it_is_left(
    ioflame: Ioflame, bench: subprocess.Popen[bytes], tmp_path: Path, how: signal.Signals, when: str
) -> None:
    with topped(ioflame, bench.pid, tmp_path) as (process, terminal):
        if when == "eBPF is attached":
            # What tries the kernel before (`ioflame-ebpf needs`) attaches something for a moment, too.
            until(lambda: any(is_attached(pid) and not tries_the_kernel(pid) for pid in below(process)), process)
        else:
            until(lambda: terminal.has("libc\\+k"), process)
        programs, ours = programs_of(below(process)), [HeldProcess(pid) for pid in below(process)]
        assert ours and (bool(programs) or when != "eBPF is attached")
        process.send_signal(how)
        until(lambda: process.poll() is not None and not any(one.alive for one in ours))
        if how is signal.SIGTERM:
            assert process.returncode == 130
            until(lambda: terminal.has("interrupted", "ioflame analyse"))
    until(lambda: not any(map(is_loaded, programs)))
    assert ioflame.left_behind() == []
    assert bench.poll() is None and HeldProcess(bench.pid).stat()[0] != b"T"
