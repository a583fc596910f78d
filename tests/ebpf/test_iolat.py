"""IO latency against those who know: fio, which sent the requests, and /proc/diskstats, on a disk of their own."""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ebpf.iolat import IoLatencyRequest, io_latency_checks, io_latency_observer
from ground.results.checks import Check, Verdict
from ground.results.io_latency import IoLatency, read_io_latency
from ground.system.descendants import descendants
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.ebpf.conftest import Disk, FioCounts, disk_of, on_loop, run_fio
from tests.ebpf.windows import in_turns, observed
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "loop")]

# Primes: a count that is short by a round number is no accident of the load.
_FEW, _MANY = 509, 2003
_BLKPG, _ADD_PARTITION = 0x1269, 1


def traced(
    disk: Disk, tmp_path: Path, load: Callable[[], FioCounts], backend: str = "co-re", pid: int = 0
) -> tuple[FioCounts, IoLatency]:
    """What fio did and what was traced of it; it is a child of ours, or of `pid`, and begins and ends in the window."""
    out, done = tmp_path / "iolat.json", []
    request = IoLatencyRequest([pid or os.getpid()], disk.number, children=True, backend=backend)
    observed(lambda children: io_latency_observer(request, children, out), lambda: done.append(load()))
    return done[0], read_io_latency(out)


def check(latency: IoLatency, name: str) -> Check:
    return next(check for check in io_latency_checks(latency) if check.name == f"iolat {name}")


def assert_whole(counted: int, sent: int, latency: IoLatency) -> None:
    """Every request was counted, but for those that the kernel completed without running any program: their address is
    used again, or they are still in flight on a device that nobody uses any more. They come in bursts, while a thread
    that no program is run for is busy.

    sent: by fio, before the kernel merged what lay side by side
    """
    assert not any(n for name, n in latency.losses.items() if name != "no_end")
    assert latency.diskstats is not None
    disk = latency.diskstats.outer
    requests = disk.read.requests + disk.write.requests
    assert requests + disk.read.merged + disk.write.merged == sent
    assert 0 < counted == requests - latency.losses["no_end"] - latency.facts["unfinished"]
    assert check(latency, "coverage").verdict is Verdict.OK


def of_process(latency: IoLatency) -> int:
    return sum(latency.row(operation, "process").total.count for operation in ("read", "write"))


def assert_adds_up(latency: IoLatency) -> None:
    """Each request of the process waited in the queue and was at the device; each read ended in a slice."""
    for row in latency.rows:
        if row.owner == "process":
            assert row.queue.count == row.device.count == row.total.count
            assert row.queue.sum_ns + row.device.sum_ns == row.total.sum_ns
            for histogram in (row.queue, row.device, row.total):
                assert sum(count for _, _, count in histogram.buckets) == histogram.count
                assert histogram.buckets[0][0] <= histogram.least_ns and histogram.most_ns < histogram.buckets[-1][1]
    for owner in ("process", "others"):
        in_slices = sum(count for piece in latency.slices for _, _, count in getattr(piece, owner))
        assert in_slices == latency.row("read", owner).total.count
    assert all(latency.start_ns < piece.end_ns for piece in latency.slices)


def test_turns_are_counted_and_what_is_between_them_is_not(loop: Disk, tmp_path: Path) -> None:
    out = tmp_path / "iolat.json"
    request = IoLatencyRequest([os.getpid()], loop.number, children=True, turns=True)

    def load() -> None:
        assert run_fio(loop, "--rw=randrw", "--numjobs=2", "--bs=8k", f"--number_ios={_FEW}") != (0, 0)

    in_turns(lambda children: io_latency_observer(request, children, out), load)
    latency = read_io_latency(out)
    assert_whole(of_process(latency), 3 * 2 * _FEW, latency)
    ends = [edge for turn in latency.turns for edge in turn]
    assert len(ends) == 6 and ends == sorted(ends) and (ends[0], ends[-1]) == (latency.start_ns, latency.end_ns)
    assert latency.seconds == sum(end - start for start, end in latency.turns) / 1e9
    assert_adds_up(latency)


def test_a_child_that_came_between_two_turns_is_known(loop: Disk, tmp_path: Path) -> None:
    out = tmp_path / "iolat.json"
    request = IoLatencyRequest([os.getpid()], loop.number, children=True, turns=True)
    with Children() as children, attached(io_latency_observer(request, children, out), Reporter(quiet=True)) as one:
        one.open()
        one.close()
        with subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
            one.open()
            run_fio(loop, "--rw=randread", "--bs=4k", f"--number_ios={_FEW}", shell=shell)
            one.close()
    latency = read_io_latency(out)
    assert len(latency.turns) == 2
    assert_whole(of_process(latency), _FEW, latency)


_SQ_POLL = ("--ioengine=io_uring", "--sqthread_poll=1", "--iodepth=8", "--rw=randread")
_THREADS = ("--thread", "--rw=randread", "--group_reporting")
_SIDE_BY_SIDE = ("--ioengine=libaio", "--iodepth=64", "--iodepth_batch=32", "--rw=read")


@pytest.mark.parametrize(
    ("options", "kib", "jobs", "each"),
    [
        (("--rw=randread",), 4, 1, _FEW),
        (("--rw=randrw",), 8, 4, _FEW),
        (("--rw=randrw",), 64, 1, _FEW),
        (("--ioengine=pvsync2", "--rw=randrw"), 8, 1, _FEW),
        (("--ioengine=io_uring", "--iodepth=8", "--rw=randrw"), 8, 1, _FEW),
        (("--ioengine=libaio", "--iodepth=8", "--rw=randrw"), 8, 1, _FEW),
        (_SQ_POLL, 4, 1, _FEW),
        (("--rw=randread", "--size=4k"), 4, 4, _FEW),
        (_THREADS, 4, 64, 17),
        (_SIDE_BY_SIDE, 4, 1, _FEW),
    ],
    ids=["reads", "four processes", "large", "pvsync2", "io_uring", "libaio", "a thread of the kernel", "one block",
         "threads that come and go", "merged"],
)  # fmt: skip
@pytest.mark.usefixtures("kernels")
def test_however_a_request_is_asked_for_it_is_the_processes(
    loop: Disk, tmp_path: Path, options: tuple[str, ...], kib: int, jobs: int, each: int
) -> None:
    # As many bytes as that: of one block fio does not count requests.
    words = (*options, f"--bs={kib}k", f"--numjobs={jobs}", f"--io_size={each * kib}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *words))
    assert fio.reads + fio.writes == jobs * each
    assert_whole(of_process(latency), jobs * each, latency)
    assert_adds_up(latency)
    assert latency.diskstats is not None
    disk = latency.diskstats.outer
    assert (disk.read.requests + disk.read.merged, disk.write.requests + disk.write.merged) == fio
    assert disk.read.merged or options is not _SIDE_BY_SIDE
    kinds = [kind for kind in latency.kinds if kind.owner == "process"]
    assert sum(kind.count for kind in kinds) == of_process(latency)
    # Requests that were merged are one, and as large as all of them.
    assert disk.read.merged or disk.write.merged or {kind.bytes for kind in kinds} == {kib * 1024}
    unseen = latency.losses["no_end"] + latency.facts["unfinished"]
    assert unseen or sum(kind.count * kind.bytes for kind in kinds) == 512 * (disk.read.sectors + disk.write.sectors)
    # What is not waited for at once is not `sync`.
    assert any("iodepth" in word for word in options) or all("sync" in kind.flags for kind in kinds)


@pytest.mark.usefixtures("kernels")
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


@pytest.mark.usefixtures("kernels")
def test_a_write_that_flushes_first_is_done_once(own_disk: Path, tmp_path: Path) -> None:
    """A journal's commit: the kernel completes it step by step, as a flush, as data, and once more."""
    device = own_disk.stat().st_dev
    disk = Disk("", (os.major(device), os.minor(device)))

    def load() -> FioCounts:
        for number in range(20):
            with (own_disk / f"flushed-{number}").open("wb") as file:
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())
        return FioCounts(0, 20)

    _, latency = traced(disk, tmp_path, load)
    assert any(kind.flushes_and_writes for kind in latency.kinds) and latency.count("flush") >= 20
    assert not any(n for name, n in latency.losses.items() if name != "no_end")
    assert check(latency, "coverage").verdict is Verdict.OK


@pytest.mark.needs("zram")
def test_a_device_without_requests_is_followed_by_its_bios(zram: Disk, tmp_path: Path) -> None:
    fio, latency = traced(zram, tmp_path, lambda: run_fio(zram, "--rw=randrw", "--bs=4k", f"--number_ios={_FEW}"))
    assert latency.device.bio_based
    read, write = latency.row("read", "process"), latency.row("write", "process")
    assert (read.total.count, write.total.count) == (fio.reads, fio.writes)
    assert read.queue.count == read.device.count == 0
    assert check(latency, "coverage").verdict is Verdict.OK


def test_a_request_that_is_under_way_when_the_window_closes_is_unfinished(own_disk: Path, tmp_path: Path) -> None:
    """The file behind the device is on a file system that is frozen: its write ends once that thaws."""
    behind, out = own_disk / "behind", tmp_path / "iolat.json"
    behind.write_bytes(bytes(1 << 20))
    with on_loop(behind) as device:
        write = ["dd", "if=/dev/zero", f"of={device.path}", "bs=4096", "count=1", "oflag=direct", "status=none"]
        under_way = Path(f"/sys/block/{Path(device.path).name}/inflight")
        request = IoLatencyRequest([os.getpid()], device.number, children=True)
        subprocess.run(["fsfreeze", "--freeze", own_disk], check=True)
        with subprocess.Popen(["sh", "-c", 'read _; exec "$@"', "sh", *write], stdin=subprocess.PIPE) as writer:

            def load() -> None:
                assert writer.stdin is not None
                writer.stdin.close()
                until(lambda: under_way.read_text().split() == ["0", "1"], writer)

            try:
                observed(lambda children: io_latency_observer(request, children, out), load)
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", own_disk], check=True)
    latency = read_io_latency(out)
    assert latency.facts["unfinished"] == 1 and not any(latency.losses.values())


@pytest.mark.needs("bpftrace")
@pytest.mark.parametrize("jobs", [1, 4])
def test_bpftrace_counts_no_request_that_it_saw_in_part(loop: Disk, tmp_path: Path, jobs: int) -> None:
    """Four readers of one block: a request starts on a CPU while the end of the last is traced on another."""
    options = ("--rw=randread", f"--numjobs={jobs}", "--bs=4k", "--size=4k", f"--io_size={_MANY * 4}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options), "bpftrace")
    assert fio.reads == jobs * _MANY
    assert [(row.operation, row.owner) for row in latency.rows] == [("read", "process")]
    assert {kind.bytes for kind in latency.kinds} == {4096}
    assert latency.losses["lost_start"] == latency.losses["lost_kind"] == 0
    read = latency.row("read", "process")
    assert 0 < read.queue.count == read.device.count <= read.total.count <= fio.reads
    # The end of the last of each job may not be seen, and no other request follows that would show it.
    assert read.total.count + latency.losses["collided"] + latency.losses["no_start"] >= fio.reads - jobs
    # Of one whose hand-over to the driver was not seen, the whole alone is known.
    assert read.queue.sum_ns + read.device.sum_ns <= read.total.sum_ns
    if read.queue.count == read.total.count:
        assert read.queue.sum_ns + read.device.sum_ns == read.total.sum_ns
    assert sum(n for piece in latency.slices for _, _, n in piece.process) == read.total.count


@pytest.mark.needs("bpftrace")
def test_bpftrace_knows_children_that_came_while_it_attached_however_many(loop: Disk, tmp_path: Path) -> None:
    out = tmp_path / "iolat.json"
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with shell, Children() as ours:

        def ordered(line: str, processes: int) -> None:
            assert shell.stdin is not None
            shell.stdin.write(f"{line}\n")
            shell.stdin.flush()
            until(lambda: len(descendants([shell.pid])) == processes, shell)

        ordered('for one in $(seq 17); do sleep 600 & all="$all $!"; done; read go; sh; kill $all', 1 + 17)
        request = IoLatencyRequest([shell.pid], loop.number, children=True, backend="bpftrace")
        observer = io_latency_observer(request, ours, out)
        ordered("go", 1 + 17 + 1)  # the last is a shell, which reads the next line
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            fio = run_fio(loop, "--rw=randread", "--bs=4k", f"--number_ios={_FEW}", shell=shell)
            observer.close()
    latency = read_io_latency(out)
    assert fio.reads == _FEW and {row.owner for row in latency.rows} == {"process"}


@pytest.mark.needs("biolatency")
def test_biolatency_as_the_backend(loop: Disk, tmp_path: Path) -> None:
    options = ("--rw=randread", "--bs=8k", f"--io_size={_MANY * 8}k")
    fio, latency = traced(loop, tmp_path, lambda: run_fio(loop, *options), "bcc")
    assert 0 < latency.count("read") <= fio.reads
    assert check(latency, "losses").verdict is Verdict.NOTE
