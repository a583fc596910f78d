"""Whose requests are, against those who know: files that the test itself reads and writes, on a disk of its own."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebpf.requests import RequestsOptions, requests_observer
from ground.results.files import Files
from ground.results.requests import read_requests, request_rows
from ioflame.instruments.iolat import device_number
from tests.ebpf.conftest import Disk, mounted
from tests.ebpf.requests_window import READER, is_at, seen
from tests.ebpf.windows import FEW, observed

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "loop")]

_BLOCK = 8192


@pytest.fixture
def data(own_disk: Path) -> Path:
    """A file of 16 MiB which is on the device, in a directory of its own."""
    path = own_disk / f"folder-{len(list(own_disk.iterdir()))}" / "data"
    path.parent.mkdir()
    path.write_bytes(os.urandom(1 << 20) * 16)
    os.sync()  # what is dirty cannot be dropped from the page cache, and is not to be written within the window
    return path


def read_directly(path: Path, reads: int = FEW) -> None:
    """So many blocks of a file, one after the other, each by a request of its own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, _BLOCK)
    for offset in offsets_of(path, reads):
        assert os.preadv(descriptor, [buffer], offset) == _BLOCK
    os.close(descriptor)


def offsets_of(path: Path, reads: int = FEW) -> list[int]:
    """Not side by side: requests that touch are merged."""
    blocks = path.stat().st_size // _BLOCK
    return [(place * 7 % blocks) * _BLOCK for place in range(reads)]


@pytest.mark.usefixtures("kernels")
def test_direct_reads_are_their_file_s_by_count_size_and_place(data: Path, tmp_path: Path) -> None:
    found = seen(tmp_path, lambda: read_directly(data), device=data.parent)
    found.nothing_failed()
    row = found.file(data)
    assert FEW - found.unseen <= row.reads <= FEW
    assert row.read_bytes == row.reads * _BLOCK and row.owner == "process"
    rows = found.of_file(data, "read")
    places = set(offsets_of(data))
    assert {one.offset for one in rows} <= places and len({one.offset for one in rows}) >= len(places) - found.unseen
    assert all(found.traced.found[one.found] == "direct" for one in rows)
    assert (
        "by what they are for: read" in found.text
        and "other files of the process" in found.text
        and "/data" in found.text
    )
    assert {"requests coverage", "requests cost"} <= {check.name for check in found.checks}
    # The device had nothing else to read.
    assert found.traced.diskstats is not None
    assert found.count(operation="read") + found.unseen >= found.traced.diskstats.outer.read.requests >= row.reads


@pytest.mark.usefixtures("kernels")
def test_reads_and_writes_through_the_page_cache_are_their_file_s(data: Path, tmp_path: Path) -> None:
    new, size = data.with_name("new"), 3 << 20

    def load() -> None:
        with data.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass
        with new.open("wb") as file:
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())

    found = seen(tmp_path, load, device=data.parent)
    found.nothing_failed()
    read, written = found.of_file(data, "read"), found.of_file(new, "write")
    sizes = sum(one.bytes for one in read), sum(one.bytes for one in written)
    assert sizes == (data.stat().st_size, size) or found.unseen
    assert all(found.traced.found[one.found] == "cached" for one in (*read, *written))
    # fsync's own: metadata of the file system, and what asks the drive to flush.
    assert found.count(owner="file system", operation="write") + found.unseen > 0
    assert found.traced.flags["rahead"] and found.attribution.readahead > 0


def test_an_inode_that_is_used_again_is_another_file(data: Path, tmp_path: Path) -> None:
    """The file system gives its number out again at once; which files got the same one is asked of it."""
    names = [f"file-{number}" for number in range(8)]
    inodes: dict[str, int] = {}

    def load() -> None:
        for name in names:
            path = data.with_name(name)
            with path.open("wb") as file:
                file.write(b"x" * 8192)
                file.flush()
                os.fsync(file.fileno())
                inodes[name] = os.fstat(file.fileno()).st_ino
            path.unlink()

    found = seen(tmp_path, load, device=data.parent)
    known = {name: file for name in names for file in found.traced.files if is_at(file, data.with_name(name))}
    assert len(known) >= len(names) - found.unseen
    assert all(file.inode == inodes[name] for name, file in known.items())
    # Each was written, and none got the writes of another.
    assert len({(file.inode, file.generation) for file in known.values()}) == len(known)
    if len(set(inodes.values())) < len(names):
        assert len({file.inode for file in known.values()}) < len(known) or found.unseen
    assert all(sum(one.bytes for one in found.of_file(data.with_name(name), "write")) == 8192 for name in known)


def test_another_process_is_told_apart(data: Path, tmp_path: Path) -> None:
    code = f"{READER}for place in range(97): os.preadv(f, [b], place * 3 * 8192)\n"

    def load() -> None:
        subprocess.run([sys.executable, "-c", code, data], check=True, capture_output=True)

    others = seen(tmp_path, load, device=data.parent, children=False)
    row = others.file(data)
    assert 97 - others.unseen <= row.reads <= 97 and row.owner == "others"
    assert others.count(owner="others", operation="read") >= row.reads
    assert seen(tmp_path, load, device=data.parent, children=True).file(data).owner == "process"


def test_a_ring_that_overflows_says_how_many_are_lost(data: Path, tmp_path: Path) -> None:
    out = tmp_path / Files.REQUESTS
    # Room for 36 requests, and it is emptied 20 times a second.
    request = RequestsOptions([os.getpid()], device_number(str(data.parent)), map_entries=4096)
    observed(lambda children: requests_observer(request, children, out), lambda: read_directly(data, 2003))
    told = read_requests(out)
    assert told.losses["lost_record"] > 0 and told.diskstats is not None
    rows = sum(one.operation == 0 for one in request_rows(out.with_name(Files.REQUEST_ROWS), told))
    unseen = told.losses["no_end"] + told.facts["unfinished"]
    assert rows < 2003 and rows + told.losses["lost_record"] >= told.diskstats.outer.read.requests - unseen - 8


@pytest.mark.needs("zram")
def test_a_device_without_requests_is_followed_by_its_bios(zram: Disk, tmp_path: Path) -> None:
    with mounted(zram.path, tmp_path / "mounted", "has_journal") as place:
        file = place / "folder" / "file"
        file.parent.mkdir()
        file.write_bytes(os.urandom(1 << 20))
        os.sync()
        found = seen(tmp_path, lambda: read_directly(file, 97), device=place)
        reads = found.of_file(file, "read")
    assert found.attribution.device.bio_based
    found.nothing_failed()
    assert len(reads) == found.count(operation="read", owner="process") == 97
    assert all(one.queue_ns == 0 < one.device_ns for one in reads)
