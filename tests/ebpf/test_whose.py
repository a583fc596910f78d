"""Whose requests are, against those who know: files that the test itself reads and writes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebpf.whose import WhoseRequest, requests_observer
from ground.errors import EXIT_OK
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.requests import read_requests, request_rows
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments.iolat import device_number
from tests.conftest import Ioflame
from tests.ebpf.conftest import Disk
from tests.ebpf.whose_window import is_at, seen

pytestmark = [pytest.mark.needs("co-re")]

# A prime: a count that is short by a round number is no accident of the load.
_READS = 211
_BLOCK = 8192


def read_directly(path: Path, reads: int = _READS) -> None:
    """So many blocks of a file, one after the other, each by a request of its own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, _BLOCK)
    blocks = path.stat().st_size // _BLOCK
    for place in range(reads):
        # Not side by side: requests that touch are merged.
        assert os.preadv(descriptor, [buffer], (place * 7 % blocks) * _BLOCK) == _BLOCK
    os.close(descriptor)


def test_direct_reads_are_their_file_s_by_count_size_and_place(data: Path, tmp_path: Path) -> None:
    found = seen(tmp_path, lambda: read_directly(data))
    found.nothing_failed()
    row = found.file(data)
    assert _READS - found.unseen <= row.reads <= _READS
    assert row.read_bytes == row.reads * _BLOCK and row.owner == "process"
    rows = found.of_file(data, "read")
    blocks = data.stat().st_size // _BLOCK
    places = {(place * 7 % blocks) * _BLOCK for place in range(_READS)}
    assert {one.offset for one in rows} <= places and len({one.offset for one in rows}) >= len(places) - found.unseen
    assert all(found.traced.found[one.found] == "direct" for one in rows)


def test_reads_and_writes_through_the_page_cache_are_their_file_s(data: Path, tmp_path: Path) -> None:
    new, size = tmp_path / "new", 3 << 20

    def load() -> None:
        with data.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass
        with new.open("wb") as file:
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())

    os.sync()  # what is dirty cannot be dropped from the page cache
    found = seen(tmp_path, load)
    found.nothing_failed()
    read, written = found.of_file(data, "read"), found.of_file(new, "write")
    sizes = sum(one.bytes for one in read), sum(one.bytes for one in written)
    assert sizes == (data.stat().st_size, size) or found.unseen
    assert all(found.traced.found[one.found] == "cached" for one in (*read, *written))
    # fsync's own: metadata of the file system, and what asks the drive to flush.
    assert found.count(owner="file system", operation="write") + found.unseen > 0
    assert found.traced.flags["rahead"] and found.whose.readahead > 0


def test_the_sums_are_those_of_diskstats(data: Path, tmp_path: Path) -> None:
    found = seen(tmp_path, lambda: read_directly(data, 1009))
    assert found.check("coverage").verdict is Verdict.OK, found.check("coverage")
    assert found.traced.diskstats is not None
    for operation in ("read", "write"):
        disk = getattr(found.traced.diskstats.outer, operation)
        counted = found.count(operation=operation)
        assert counted <= disk.requests + 2 * (os.cpu_count() or 1)
        assert counted >= 0.999 * getattr(found.traced.diskstats.inner, operation).requests - found.unseen - 4


def test_an_inode_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    """The file system gives its number out again at once; which files got the same one is asked of it."""
    names = [f"file-{number}" for number in range(8)]
    inodes: dict[str, int] = {}

    def load() -> None:
        for name in names:
            path = tmp_path / name
            with path.open("wb") as file:
                file.write(b"x" * 8192)
                file.flush()
                os.fsync(file.fileno())
                inodes[name] = os.fstat(file.fileno()).st_ino
            path.unlink()

    found = seen(tmp_path, load)
    known = {name: file for name in names for file in found.traced.files if is_at(file, tmp_path / name)}
    assert len(known) >= len(names) - found.unseen
    assert all(file.inode == inodes[name] for name, file in known.items())
    # Each was written, and none got the writes of another.
    assert len({(file.inode, file.generation) for file in known.values()}) == len(known)
    if len(set(inodes.values())) < len(names):
        assert len({file.inode for file in known.values()}) < len(known) or found.unseen
    assert all(sum(one.bytes for one in found.of_file(tmp_path / name, "write")) == 8192 for name in known)


def test_another_process_is_told_apart(data: Path, tmp_path: Path) -> None:
    code = (
        "import os, mmap, sys\n"
        "f, b = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)\n"
        "for place in range(97): os.preadv(f, [b], place * 3 * 8192)\n"
    )

    def load() -> None:
        subprocess.run([sys.executable, "-c", code, data], check=True)

    others = seen(tmp_path, load, children=False)
    row = others.file(data)
    assert 97 - others.unseen <= row.reads <= 97 and row.owner == "others"
    assert others.count(owner="others", operation="read") >= row.reads
    assert seen(tmp_path, load, children=True).file(data).owner == "process"


def test_a_ring_that_overflows_says_how_many_are_lost(data: Path, tmp_path: Path) -> None:
    out = tmp_path / Files.REQUESTS
    with Children() as children:
        # Room for 36 requests, and it is emptied 20 times a second.
        request = WhoseRequest([os.getpid()], device_number(str(tmp_path)), map_entries=4096)
        observer = requests_observer(request, children, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            read_directly(data, 2003)
            observer.close()
    told = read_requests(out)
    assert told.losses["lost_record"] > 0
    assert told.diskstats is not None
    rows = sum(one.operation == 0 for one in request_rows(out.with_name(Files.REQUEST_ROWS), told))
    reads = told.diskstats.outer.read.requests
    unseen = told.losses["no_end"] + told.facts["unfinished"]
    assert rows < 2003 and rows + told.losses["lost_record"] >= reads - unseen - 8


def test_the_command_prints_tables_and_checks(ioflame: Ioflame, data: Path, tmp_path: Path) -> None:
    code = (
        "import os, mmap, sys\n"
        "f, b = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)\n"
        "print('reading', flush=True)\n"
        "while True: os.preadv(f, [b], 65536)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, data], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"reading\n"
        words = ["--pid", str(reader.pid), "--device", str(tmp_path), "--seconds", "1", "--out", str(tmp_path / "kept")]
        exit_code, out, err = ioflame.run("ebpf", "whose", *words)
        reader.kill()
    assert exit_code == EXIT_OK, out + err
    assert "read: whose" in out and "other files of the process" in out and "/data" in out
    assert "whose coverage" in out and "whose cost" in out
    assert (tmp_path / "kept").stat().st_size


@pytest.mark.needs("zram")
def test_a_device_without_requests_is_followed_by_its_bios(zram: Disk, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", zram.path], check=True)
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mount", zram.path, place], check=True)
    try:
        file = place / "folder" / "file"
        file.parent.mkdir()
        file.write_bytes(os.urandom(1 << 20))
        os.sync()
        found = seen(place, lambda: read_directly(file, 97))
        reads = found.of_file(file, "read")
    finally:
        subprocess.run(["umount", place], check=True)
    assert found.whose.device.bio_based
    found.nothing_failed()
    assert len(reads) == found.count(operation="read", owner="process") == 97
    assert all(one.queue_ns == 0 < one.device_ns for one in reads)
