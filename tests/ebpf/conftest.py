"""A disk of our own, so that every request on it is one that a test has sent; processes that wait in known ways."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SIZE = 64 << 20

Start = Callable[..., "subprocess.Popen[str]"]


@dataclass(frozen=True)
class Disk:
    """A block device and its number."""

    path: str
    number: tuple[int, int]


def disk_of(path: str) -> Disk:
    device = Path(path).stat().st_rdev
    return Disk(path, (os.major(device), os.minor(device)))


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Disk]:
    """A loop device over 64 MiB of real data, which it reads with O_DIRECT: its reads are those of a disk."""
    image = tmp_path / "disk.img"
    image.write_bytes(os.urandom(1 << 20) * (_SIZE >> 20))
    done = _run("losetup", "--find", "--show", "--partscan", "--direct-io=on", str(image))
    path = done.stdout.strip()
    try:
        yield disk_of(path)
    finally:
        _run("losetup", "--detach", path)


@pytest.fixture
def zram() -> Iterator[Disk]:
    """A device without requests: bios end in it."""
    number = Path("/sys/class/zram-control/hot_add").read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(_SIZE))
        yield disk_of(f"/dev/zram{number}")
    finally:
        Path(f"/sys/block/zram{number}/reset").write_text("1")
        Path("/sys/class/zram-control/hot_remove").write_text(number)


@dataclass(frozen=True)
class FioCounts:
    """What fio says it did: reads and writes of all jobs."""

    reads: int
    writes: int


def run_fio(disk: Disk, *options: str) -> FioCounts:
    """fio to its end, with O_DIRECT on the device itself."""
    done = _run(
        "fio",
        "--name=load",
        f"--filename={disk.path}",
        "--direct=1",
        "--size=32m",
        "--randrepeat=0",
        "--output-format=json",
        *options,
    )
    jobs: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    return FioCounts(
        reads=sum(job["read"]["total_ios"] for job in jobs), writes=sum(job["write"]["total_ios"] for job in jobs)
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 16 MiB to read with O_DIRECT."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20) * 16)
    return path


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """waiting.c, with frame pointers, so that its callers are seen."""
    return compiled(tmp_path_factory, "waiting.c", "-fno-omit-frame-pointer", "-pthread")


def compiled(tmp_path_factory: pytest.TempPathFactory, source: str, *flags: str) -> Path:
    """The program of a C file beside this one."""
    path = Path(__file__).with_name(source)
    out = tmp_path_factory.mktemp(path.stem) / path.stem
    _run("cc", "-O1", "-Wall", "-Werror", *flags, "-o", str(out), str(path))
    return out


@pytest.fixture
def start(program: Path) -> Iterator[Start]:
    """Starts it; returns once its threads run."""
    started: list[subprocess.Popen[str]] = []

    def begin(*modes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([program, "120", *modes], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done
