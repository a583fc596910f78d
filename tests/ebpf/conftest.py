"""A disk of our own, so that every request on it is one that a test has sent; processes that wait in known ways."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ebpf.observer import loader_binary
from tests.ebpf.windows import Standin
from tests.ebpf.writers import Writer
from tests.programs import FRAMES, compiled
from tests.recorded_run import made_once
from tests.workloads.jars import host_library

_SIZE = 64 << 20
SOURCES = Path(__file__).parent

Start = Callable[..., "subprocess.Popen[str]"]
Build = Callable[..., Path]


class Disk(NamedTuple):
    """A block device and its number."""

    path: str
    number: tuple[int, int]


def disk_of(path: str) -> Disk:
    device = Path(path).stat().st_rdev
    return Disk(path, (os.major(device), os.minor(device)))


def _written(path: Path, size: int) -> Path:
    """A file of real data, which is on the disk."""
    with path.open("wb") as file:
        file.write(os.urandom(1 << 20) * (size >> 20))
        file.flush()
        os.fsync(file.fileno())
    return path


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("image") / "disk.img", _SIZE)


@contextlib.contextmanager
def on_loop(image: Path) -> Iterator[Disk]:
    """A loop device over a file, which it reads with O_DIRECT: its reads are those of a disk."""
    done = _run("losetup", "--find", "--show", "--partscan", "--direct-io=on", str(image))
    path = done.stdout.strip()
    try:
        yield disk_of(path)
    finally:
        _run("losetup", "--detach", path)


@pytest.fixture
def loop(image: Path) -> Iterator[Disk]:
    """A loop device over 64 MiB of real data."""
    with on_loop(image) as disk:
        yield disk


@contextlib.contextmanager
def mounted(device: Path | str, place: Path, features: str, *options: str) -> Iterator[Path]:
    """A new ext4 on a device, or in a file, on which nobody writes but who is told of it."""
    made = ["-E", "lazy_itable_init=0,lazy_journal_init=0", "-N", "1024", "-O", features]
    _run("mkfs.ext4", "-q", *made, str(device))
    place.mkdir()
    _run("mount", *options, str(device), str(place))
    try:
        yield place
    finally:
        _run("umount", str(place))


@contextlib.contextmanager
def mounted_file(directory: Path, features: str = "has_journal") -> Iterator[Path]:
    """The same of 512 MiB on a loop device, which goes with its mount."""
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    with mounted(image, directory / "mounted", features, "-o", "loop") as place:
        yield place


@pytest.fixture(scope="module")
def own_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of a file system that nobody else uses."""
    with mounted_file(tmp_path_factory.mktemp("own-disk")) as place:
        yield place


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


class FioCounts(NamedTuple):
    """What fio says it did: reads and writes of all jobs."""

    reads: int
    writes: int


def run_fio(disk: Disk, *options: str, shell: subprocess.Popen[str] | None = None) -> FioCounts:
    """fio to its end, with O_DIRECT on the device itself. shell: that starts it, and ends; otherwise we do"""
    argv = ["fio", "--name=load", f"--filename={disk.path}", "--direct=1", "--size=32m", "--randrepeat=0"]
    argv += ["--output-format=json", *options]
    told = _run(*argv).stdout if shell is None else shell.communicate(shlex.join(argv))[0]
    jobs: list[dict[str, Any]] = json.loads(told[told.index("{") :])["jobs"]
    return FioCounts(
        reads=sum(job["read"]["total_ios"] for job in jobs), writes=sum(job["write"]["total_ios"] for job in jobs)
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 16 MiB to read with O_DIRECT; nobody writes to it."""
    return _written(tmp_path_factory.mktemp("data") / "data", 16 << 20)


@pytest.fixture(scope="session")
def compile_once(shared: Path) -> Build:
    """`compile_once(source, *flags)`: a program of SOURCES, which one worker compiles for all."""

    def compile_once(source: str, *flags: str) -> Path:
        name = source.partition(".")[0]

        def make(place: Path) -> None:
            compiled(SOURCES / source, place / name, "-Wall", "-Werror", *flags)

        words = (flag.strip("-") for flag in flags if "/" not in flag)
        return made_once(shared, "-".join(("ebpf", name, *words)), make) / name

    return compile_once


@pytest.fixture(scope="session")
def program(compile_once: Build) -> Path:
    """waiting.c, with frame pointers, so that its callers are seen."""
    return compile_once("waiting.c", *FRAMES, "-pthread")


@pytest.fixture(scope="session")
def build(compile_once: Build) -> Build:
    """`build(*flags)`: the stand-in engine, with frame pointers."""
    return functools.partial(compile_once, "standin.cc", "-O2", *FRAMES[1:], "-pthread")


@pytest.fixture
def engine(request: pytest.FixtureRequest, build: Build, data: Path) -> Iterator[Standin]:
    """The stand-in engine of shape 1: `parametrize("engine", [(shape, *flags)], indirect=True)` for another one."""
    shape, *flags = getattr(request, "param", (1,))
    engine = Standin(build(*flags), data, shape=shape)
    yield engine
    engine.kill()


@pytest.fixture
def start(program: Path) -> Iterator[Start]:
    """Starts it; returns once its threads run."""
    started: list[subprocess.Popen[str]] = []

    def begin(*modes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([program, "3600", *modes], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


StartWriter = Callable[..., Writer]


@pytest.fixture(scope="session")
def writer_program(compile_once: Build) -> Path:
    return compile_once("writer.c", *FRAMES, "-rdynamic", "-pthread", str(host_library()))


@pytest.fixture
def start_writer(writer_program: Path, tmp_path: Path) -> Iterator[StartWriter]:
    """`start_writer(options, directory)`: a writer of a new database, whose options are as in an OPTIONS file."""
    started: list[Writer] = []

    def begin(options: str = "", directory: Path = tmp_path) -> Writer:
        started.append(Writer(writer_program, directory / f"db{len(started)}", options))
        return started[-1]

    yield begin
    for writer in started:
        writer.kill()


DB_FLAGS = [
    "--num=100000", "--key_size=20", "--value_size=400", "--block_size=8192", "--block_align=1",
    "--compression_type=none", "--cache_index_and_filter_blocks=1", "--bloom_bits=10", "--write_buffer_size=16777216",
    "--target_file_size_base=16777216",
]  # fmt: skip
# A cache of a few blocks: nearly every query reads.
DIRECT = ["--use_direct_reads=1", "--cache_size=4194304"]


@pytest.fixture(scope="session")
def db(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RocksDB of 40 MB: one process may open it, so each worker has a copy."""

    def make(place: Path) -> None:
        _run("db_bench", "--benchmarks=fillseq,flush,waitforcompaction", f"--db={place}", "--disable_wal=1", *DB_FLAGS)

    copy = tmp_path_factory.mktemp("rocksdb") / "db"
    return Path(shutil.copytree(made_once(shared, "ebpf-db", make), copy))


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(params=["", "6.1", "7.0"])
def kernels(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for this kernel, and as they are loaded for others: without block_io_start; to be preempted."""
    if not request.param:
        return
    binary, script = loader_binary(), tmp_path / "as-on" / "ioflame-ebpf"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {binary} "$@" --as-on {request.param}\n')
    script.chmod(0o755)
    monkeypatch.setattr("ebpf.observer.loader_binary", lambda: script)
