"""A disk of our own, so that every request on it is one that a test has sent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SIZE = 64 << 20


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


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done
