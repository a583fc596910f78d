"""IO latency against those who know: fio, which sent the requests, /proc/diskstats, and bcc's biolatency."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ebpf.iolat import IoLatencyRequest, io_latency_checks, io_latency_observer
from ebpf.iolat_bcc import parse_biolatency
from ground.results.checks import Check, Verdict, worst
from ground.results.io_latency import IoLatency, read_io_latency
from ground.system.observer import attached
from ground.system.process import Child, Children
from ground.text.progress import Reporter
from tests.ebpf.conftest import Disk, FioCounts, disk_of, run_fio

pytestmark = [pytest.mark.needs("co-re"), pytest.mark.needs("loop")]

# Primes: a count that is short by a round number is no accident of the load.
_FEW, _MANY = 509, 10007
_BLKPG, _ADD_PARTITION = 0x1269, 1


def traced(
    disk: Disk, tmp_path: Path, load: Callable[[], FioCounts], backend: str = "co-re", pid: int = 0
) -> tuple[FioCounts, IoLatency]:
    """What fio did and what was traced of it; it is a child of ours, or of `pid`, and begins and ends in the window."""
    out = tmp_path / "iolat.json"
    with Children() as children:
        request = IoLatencyRequest([pid or os.getpid()], disk.number, children=True, backend=backend)
        observer = io_latency_observer(request, children, out)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            fio = load()
            observer.close()
    return fio, read_io_latency(out)


def traced_by_bpftrace(disk: Disk, tmp_path: Path, *options: str) -> tuple[FioCounts, IoLatency]:
    """The same of fio with these options. The script takes 16 processes, and we may have more, of other tests: fio is
    the child of a shell."""
    with subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        return traced(disk, tmp_path, lambda: run_fio(disk, *options, shell=shell), "bpftrace", shell.pid)


def check(latency: IoLatency, name: str) -> Check:
    return next(check for check in io_latency_checks(latency) if check.name == name)


def assert_whole(counted: int, sent: int, latency: IoLatency) -> None:
    """Every request was counted, but for those that the kernel completed without running any program: their address is
    used again, or they are still in flight on a device that nobody uses any more. They come in bursts, while a thread
    that no program is run for is busy: at most a half, or the test has failed.

    sent: by fio, before the kernel merged what lay side by side
    """
    assert not any(n for name, n in latency.losses.items() if name != "no_end")
    assert latency.diskstats is not None
    disk = latency.diskstats.outer
    requests = disk.read.requests + disk.write.requests
    assert requests + disk.read.merged + disk.write.merged == sent
    told = latency.losses["no_end"] + latency.facts["unfinished"]
    assert counted + told == requests
    assert told <= 0.5 * requests


@pytest.mark.parametrize("size", ["4k", "8k", "64k"])
@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("mode", ["randread", "randrw"])
def test_counts_are_those_of_fio_and_of_diskstats(loop: Disk, tmp_path: Path, mode: str, jobs: int, size: str) -> None:
    options = (f"--rw={mode}", f"--numjobs={jobs}", f"--bs={size}", f"--number_ios={_FEW}")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    assert fio.reads + fio.writes == jobs * _FEW
    counted = latency.row("read", "process").total.count, latency.row("write", "process").total.count
    assert counted[0] <= fio.reads and counted[1] <= fio.writes
    assert_whole(sum(counted), jobs * _FEW, latency)
    assert latency.diskstats is not None
    assert latency.diskstats.outer.read.requests == fio.reads
    assert latency.diskstats.outer.write.requests == fio.writes
    assert check(latency, "iolat coverage").verdict is Verdict.OK
    kinds = [kind for kind in latency.kinds if kind.owner == "process"]
    assert {kind.bytes for kind in kinds} == {int(size[:-1]) * 1024}
    assert all("sync" in kind.flags for kind in kinds)
    assert sum(kind.count for kind in kinds) == sum(counted)


@pytest.mark.parametrize("engine", ["pvsync", "pvsync2", "io_uring", "libaio"])
def test_however_a_request_is_asked_for_it_is_the_processes(loop: Disk, tmp_path: Path, engine: str) -> None:
    options = (f"--ioengine={engine}", "--iodepth=8", "--rw=randrw", "--bs=8k", f"--number_ios={_FEW}")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    counted = latency.row("read", "process").total.count, latency.row("write", "process").total.count
    assert fio.reads + fio.writes == _FEW
    assert counted[0] <= fio.reads and counted[1] <= fio.writes
    assert_whole(sum(counted), _FEW, latency)
    assert check(latency, "iolat coverage").verdict is Verdict.OK


def test_io_uring_by_a_thread_of_the_kernels_own_is_the_processes(loop: Disk, tmp_path: Path) -> None:
    options = ("--ioengine=io_uring", "--sqthread_poll=1", "--iodepth=8", "--rw=randread", f"--number_ios={_FEW}")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, "--bs=4k", *options))
    assert fio.reads == _FEW
    assert_whole(latency.row("read", "process").total.count, _FEW, latency)


def test_four_jobs_on_one_and_the_same_block(loop: Disk, tmp_path: Path) -> None:
    options = ("--rw=randread", "--numjobs=4", "--bs=4k", "--size=4k", f"--io_size={_FEW * 4}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    assert fio.reads == 4 * _FEW
    assert_whole(latency.row("read", "process").total.count, fio.reads, latency)


@pytest.mark.alone
def test_stages_add_up_and_the_mean_is_that_of_diskstats(loop: Disk, tmp_path: Path) -> None:
    options = ("--rw=randread", "--bs=8k", f"--io_size={_MANY * 8}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    row = latency.row("read", "process")
    assert row.queue.count == row.device.count == row.total.count
    assert fio.reads == _MANY
    assert_whole(row.total.count, _MANY, latency)
    assert row.queue.sum_ns + row.device.sum_ns == row.total.sum_ns
    assert latency.diskstats is not None
    disk = latency.diskstats.outer.read.mean_ns
    assert disk is not None and row.total.mean_ns == pytest.approx(disk, rel=0.02)
    for histogram in (row.queue, row.device, row.total):
        assert sum(count for _, _, count in histogram.buckets) == histogram.count
        assert all(high - low <= max(1, low / 32) for low, high, _ in histogram.buckets)
        assert histogram.buckets[0][0] <= histogram.least_ns and histogram.most_ns < histogram.buckets[-1][1]
    assert worst(io_latency_checks(latency)) in (Verdict.OK, Verdict.NOTE, Verdict.WARN)
    in_slices = sum(count for piece in latency.slices for _, _, count in piece.process)
    assert in_slices == row.total.count
    assert all(latency.start_ns < piece.end_ns for piece in latency.slices)


@pytest.mark.alone
@pytest.mark.needs("biolatency")
def test_percentiles_are_those_of_biolatency_in_the_same_window(loop: Disk, tmp_path: Path) -> None:
    text = tmp_path / "biolatency.txt"

    def load() -> FioCounts:
        name = Path(loop.path).name
        with Children() as children:
            biolatency = children.start(
                "biolatency", ["biolatency", "-F", "-d", name, "86400"], stdout=text, stop_signal=signal.SIGINT
            )
            # It begins to count once its probes sit: a load that both have seen whole begins after that.
            for _ in range(200):
                run_fio(loop, "--rw=randread", "--bs=4k", "--number_ios=11")
                if _has_begun(biolatency):
                    break
            fio = run_fio(loop, "--rw=randread", "--bs=8k", f"--io_size={_MANY * 8}k")
            biolatency.stop()
        return fio

    _, latency = traced(loop, tmp_path, load)
    theirs = parse_biolatency(text.read_text())["read"][""]
    ours = latency.row("read", "process").device
    # Its probes miss the ends that ours do: no program was run.
    assert theirs.count + latency.losses["no_end"] + latency.facts["unfinished"] >= 0.98 * _MANY
    for percent in (50.0, 90.0, 99.0):
        mine, other = ours.percentile(percent), theirs.percentile(percent)
        assert mine is not None and other is not None
        assert abs(_power(mine) - _power(other)) <= 1


def _power(ns: float) -> int:
    return int(ns / 1000).bit_length()


def _has_begun(child: Child) -> bool:
    """Whether its probes sit: each holds a perf event or a link."""
    links = [str(fd.readlink()) for fd in Path(f"/proc/{child.pid}/fd").iterdir() if fd.is_symlink()]
    return sum("bpf_link" in link or "perf_event" in link or "bpf-link" in link for link in links) >= 2


def test_a_partition_is_told_apart_from_its_disk(tmp_path: Path, loop: Disk) -> None:
    # As addpart does, which not every distribution has (BLKPG_ADD_PARTITION, linux/blkpg.h).
    about = ctypes.create_string_buffer(struct.pack("@qqi128x4x", 2048 * 512, 65536 * 512, 1))
    with Path(loop.path).open("rb") as device:
        fcntl.ioctl(device, _BLKPG, struct.pack("@iiiP", _ADD_PARTITION, 0, len(about), ctypes.addressof(about)))
    name = Path(loop.path).name
    major, minor = map(int, Path(f"/sys/block/{name}/{name}p1/dev").read_text().split(":"))
    node = tmp_path / "partition"
    os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(major, minor))  # nobody makes nodes in /dev in a container
    partition = disk_of(str(node))

    def load() -> FioCounts:
        run_fio(loop, "--rw=randread", "--bs=4k", f"--number_ios={_FEW}", "--offset=40m", "--size=8m")
        return run_fio(partition, "--rw=randread", "--bs=4k", f"--number_ios={_FEW}", "--size=8m")

    fio, latency = traced(partition, tmp_path, load)
    assert latency.device.partition and fio.reads == _FEW
    assert_whole(latency.count("read"), fio.reads, latency)
    assert check(latency, "iolat coverage").verdict is Verdict.OK


@pytest.mark.needs("zram")
def test_a_device_without_requests_is_followed_by_its_bios(zram: Disk, tmp_path: Path) -> None:
    fio, latency = traced(zram, tmp_path, lambda: run_fio(zram, "--rw=randrw", "--bs=4k", f"--number_ios={_FEW}"))
    assert latency.device.bio_based
    read, write = latency.row("read", "process"), latency.row("write", "process")
    assert (read.total.count, write.total.count) == (fio.reads, fio.writes)
    assert read.queue.count == read.device.count == 0
    assert check(latency, "iolat coverage").verdict is Verdict.OK


def test_threads_that_come_and_go_belong_to_their_process(loop: Disk, tmp_path: Path) -> None:
    options = ("--thread", "--rw=randread", "--bs=4k", "--numjobs=64", "--number_ios=17", "--group_reporting")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    assert fio.reads == 64 * 17
    assert_whole(latency.row("read", "process").total.count, fio.reads, latency)


def test_requests_merged_into_one_are_one(loop: Disk, tmp_path: Path) -> None:
    options = (
        "--rw=read",
        "--bs=4k",
        "--ioengine=libaio",
        "--iodepth=64",
        "--iodepth_batch=32",
        f"--number_ios={_FEW}",
    )
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options))
    assert latency.diskstats is not None
    disk = latency.diskstats.outer.read
    assert disk.merged > 0
    assert_whole(latency.count("read"), fio.reads, latency)
    traced_bytes = sum(kind.count * kind.bytes for kind in latency.kinds if kind.operation == "read")
    assert traced_bytes == disk.sectors * 512 or latency.count("read") < disk.requests


@pytest.mark.alone
@pytest.mark.needs("bpftrace")
def test_bpftrace_counts_the_same_but_for_what_it_states(loop: Disk, tmp_path: Path) -> None:
    options = ("--rw=randrw", "--bs=8k", f"--io_size={_MANY * 8}k")
    fio, latency = traced_by_bpftrace(loop, tmp_path, *options)
    read, write = latency.row("read", "process"), latency.row("write", "process")
    seen = read.total.count + write.total.count
    assert 0.5 * _MANY <= seen <= fio.reads + fio.writes == _MANY
    assert read.queue.sum_ns + read.device.sum_ns == read.total.sum_ns
    assert latency.diskstats is not None and latency.diskstats.outer.read.mean_ns is not None
    assert read.total.mean_ns == pytest.approx(latency.diskstats.outer.read.mean_ns, rel=0.25)
    assert {kind.bytes for kind in latency.kinds if kind.owner == "process"} == {8192}
    assert sum(n for piece in latency.slices for _, _, n in piece.process) == read.total.count


@pytest.mark.needs("bpftrace")
def test_bpftrace_counts_no_request_that_it_saw_in_part(loop: Disk, tmp_path: Path) -> None:
    """Four readers of one block: a request starts on a CPU while the end of the last is traced on another."""
    options = ("--rw=randread", "--bs=4k", "--size=4k", "--numjobs=4", "--time_based", "--runtime=4")
    fio, latency = traced_by_bpftrace(loop, tmp_path, *options)
    assert [(row.operation, row.owner) for row in latency.rows] == [("read", "process")]
    assert {kind.bytes for kind in latency.kinds} == {4096}
    assert latency.losses["lost_start"] == latency.losses["lost_kind"] == 0
    assert latency.count("read") + latency.losses["collided"] + latency.losses["no_start"] >= fio.reads


@pytest.mark.alone
@pytest.mark.needs("biolatency")
def test_biolatency_as_the_backend(loop: Disk, tmp_path: Path) -> None:
    options = ("--rw=randread", "--bs=8k", f"--io_size={_MANY * 8}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options), "bcc")
    assert 0.5 * fio.reads <= latency.count("read") <= fio.reads
    assert check(latency, "iolat losses").verdict is Verdict.NOTE
