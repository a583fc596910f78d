"""A disk of our own, so that every request on it is one that a test has sent; processes that wait in known ways."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ebpf.writers import Writer
from tests.programs import FRAMES, built, compiled
from tests.until import until
from tests.workloads.jars import host_library

_SIZE = 64 << 20
SOURCES = Path(__file__).parent

Start = Callable[..., "subprocess.Popen[str]"]
Build = Callable[..., Path]


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


def run_fio(disk: Disk, *options: str, shell: subprocess.Popen[str] | None = None) -> FioCounts:
    """fio to its end, with O_DIRECT on the device itself. shell: that starts it, and ends; otherwise we do"""
    argv = ["fio", "--name=load", f"--filename={disk.path}", "--direct=1", "--size=32m", "--randrepeat=0"]
    argv += ["--output-format=json", *options]
    told = _run(*argv).stdout if shell is None else shell.communicate(shlex.join(argv))[0]
    jobs: list[dict[str, Any]] = json.loads(told[told.index("{") :])["jobs"]
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
    return built(tmp_path_factory, SOURCES / "waiting.c", *FRAMES, "-pthread")


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`build(shape, *flags)`: the stand-in engine of a shape; each is built once."""

    @functools.cache
    def make(shape: int, *flags: str) -> Path:
        target = tmp_path_factory.mktemp("standin") / f"standin{shape}"
        return compiled(SOURCES / "standin.cc", target, "-O2", f"-DSHAPE={shape}", *flags, "-pthread")

    return make


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


StartWriter = Callable[..., Writer]


@pytest.fixture(scope="session")
def writer_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("writer") / "writer"
    return compiled(SOURCES / "writer.c", target, *FRAMES, "-Wall", "-rdynamic", "-pthread", host_library())


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
    "--num=200000",
    "--key_size=20",
    "--value_size=400",
    "--block_size=8192",
    "--block_align=1",
    "--compression_type=none",
    "--cache_index_and_filter_blocks=1",
    "--bloom_bits=10",
    "--write_buffer_size=16777216",
    "--target_file_size_base=16777216",
]
# A cache of a few blocks: nearly every query reads.
DIRECT = ["--use_direct_reads=1", "--cache_size=4194304"]
# Parameters of `reader`: pytest shares a reader between tests whose parameter is the same object.
ONE_READER, FOUR_READERS, EIGHT_READERS = (1, *DIRECT), (4, *DIRECT), (8, *DIRECT)


@pytest.fixture(scope="session")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RocksDB of 80 MB."""
    path = tmp_path_factory.mktemp("rocksdb") / "db"
    command = ["db_bench", "--benchmarks=fillseq,flush,waitforcompaction", f"--db={path}", "--disable_wal=1", *DB_FLAGS]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def reader(request: pytest.FixtureRequest, db: Path) -> Iterator[int]:
    """The pid of a db_bench that reads, once its cache is warm: `parametrize("reader", [(threads, *flags)])`.

    Tests of a module that look at the same one run one after the other, and it is started once. Nobody else can open
    its database meanwhile.
    """
    threads, *flags = request.param
    command = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", f"--db={db}", f"--threads={threads}"]
    process = subprocess.Popen(
        [*command, "--duration=600", *DB_FLAGS, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: _cpu_seconds(process.pid) >= 1.0, process)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return done
