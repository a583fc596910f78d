"""Queries that read by io_uring or libaio: whose requests these are, and which one is waited for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.counters import device_of
from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ebpf.tail import TailRequest, tail_observer
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.ladder import Ladder, read_ladder
from ground.results.query_records import PARTS, QueryRecord, Recorded, read_query_records, read_recorded
from ground.system.diskstats import disk_stats
from ground.system.observer import Observer, attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.ebpf.conftest import SOURCES, Disk, disk_of
from tests.ebpf.test_ladder import Standin
from tests.programs import FRAMES, built

pytestmark = [pytest.mark.alone, pytest.mark.needs("co-re")]

_AT_ONCE, _FEW = 8, 211
_QUERY = "read_at_once"
_BLKIO = Path("/sys/fs/cgroup/blkio")
# Reads a second of the throttled disk, and queries that wait for one of them.
_THROTTLED, _SLOW, _LONG_NS = 10, 23, 20_000_000


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, SOURCES / "uring.c", *FRAMES)


@pytest.fixture
def engine(program: Path, loop: Disk) -> Iterator[Standin]:
    engine = Standin(program, Path(loop.path))
    yield engine
    engine.kill()


def observe(engine: Standin, observer: Observer, order: str) -> int:
    """Carries out the order in a window of its own; how many reads its device counted meanwhile."""
    device = engine.data.stat().st_rdev
    number = os.major(device), os.minor(device)
    engine.order("go")
    with attached(observer, Reporter(quiet=True)):
        engine.query("stop")
        observer.open()
        before = disk_stats()[number].counts.read.requests
        engine.query(order)
        reads = disk_stats()[number].counts.read.requests - before
        observer.close()
    return reads


def ladder_of(engine: Standin, directory: Path, order: str) -> tuple[Ladder, int]:
    out = directory / "ladder.json"
    with Children() as children:
        request = LadderRequest(engine.pid, 1, "query", kind="batch", query_symbol=_QUERY)
        reads = observe(engine, ladder_observer(request, children, out), order)
    return read_ladder(out), reads


def records_of(engine: Standin, directory: Path, order: str) -> tuple[Recorded, list[QueryRecord]]:
    with Children() as children:
        request = TailRequest(engine.pid, keep="all", kind="batch", query_symbol=_QUERY)
        observe(engine, tail_observer(request, children, directory), order)
    return read_recorded(directory / Files.RECORDED), read_query_records(directory / Files.QUERY_RECORDS).records


def sound(records: list[QueryRecord]) -> bool:
    """Whether all parts add up, and each wait for an own request is for the one that was done last in it."""
    for one in records:
        done = [span.runs for span in one.spans if span.is_request]
        for wait in one.waits:
            if wait.awaited:
                last = max(at for at in done if wait.left < at <= wait.woken)
                if one.spans[wait.awaited - 1].runs != last:
                    return False
        if sum(one.parts) != one.ns:
            return False
    return True


@pytest.mark.parametrize(("how", "calls"), [("", 1), ("apart", 2), ("workers", 1), ("large", 1), ("libaio", 2)])
def test_reads_that_are_under_way_at_once_are_one_query(engine: Standin, tmp_path: Path, how: str, calls: int) -> None:
    order = f"{_AT_ONCE} {_FEW} {how}"
    ladder, reads = ladder_of(engine, tmp_path, order)
    whole, parts = ladder.of_class("several"), ladder.several
    assert parts is not None and whole.count == parts.queries == ladder.finished == _FEW
    assert sum(part.sum_ns for part in parts.parts) == whole.sum_ns
    # A read of 1 MiB may be more than one request; the device says how many.
    assert parts.requests == reads and (how == "large" or reads == _AT_ONCE * _FEW)
    # It may sleep once more, woken by one of several.
    assert _FEW * calls <= parts.reads <= _FEW * (calls + _AT_ONCE)
    assert parts.not_waited < parts.requests
    assert not [check for check in ladder_checks(ladder) if check.verdict is Verdict.FAILED]
    told, records = records_of(engine, tmp_path, order)
    assert len(records) == _FEW and sound(records) and told.uneven == 0
    if how != "large":
        assert {sum(span.is_request for span in one.spans) for one in records} == {_AT_ONCE}
    assert {one.reads for one in records} <= set(range(calls, calls + _AT_ONCE + 1))
    device = PARTS.index("device")
    assert sum(one.parts[device] for one in records) > 20 * sum(
        one.parts[PARTS.index("others_device")] for one in records
    )


def test_a_read_by_itself_has_stages(engine: Standin, tmp_path: Path) -> None:
    ladder, _ = ladder_of(engine, tmp_path, f"1 {_FEW}")
    assert sum(ladder.of_class(name).count for name in ("one_read", "awake", "disorder", "several")) == _FEW
    assert ladder.total.count > 0 and sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns


def test_what_another_thread_submits_is_no_request_of_the_query(engine: Standin, tmp_path: Path) -> None:
    engine.query("1 1 polled")
    _, records = records_of(engine, tmp_path, f"{_AT_ONCE} {_FEW} polled")
    assert len(records) == _FEW and sound(records)
    assert not any(span.is_request for one in records for span in one.spans)
    sums = dict(zip(PARTS, (sum(ns) for ns in zip(*(one.parts for one in records), strict=True)), strict=True))
    assert sums["device"] == 0 and sums["others_device"] + sums["unknown_io"] > 0


def test_of_more_than_a_record_holds_the_last_is_not_known(engine: Standin, tmp_path: Path) -> None:
    ladder, reads = ladder_of(engine, tmp_path, f"64 {_FEW}")
    assert ladder.several is not None and ladder.several.requests == reads == 64 * _FEW
    assert 0 < ladder.losses["beyond"] <= 32 * _FEW
    told, records = records_of(engine, tmp_path, f"64 {_FEW}")
    assert told.requests_beyond == 32 * _FEW and sound(records)
    # Who woke it for a request that is not known is not called late.
    assert sum(one.parts[PARTS.index("wake_up")] for one in records) == 0


@pytest.fixture
def throttled(program: Path, tmp_path: Path) -> Iterator[Standin]:
    """An engine one of whose files is on a disk that gives it a few reads a second, the other one in memory."""
    files = [Path("/dev/shm") / f"ioflame-{os.getpid()}.img", tmp_path / "slow.img"]
    group, disks = _BLKIO / f"ioflame-{os.getpid()}", []
    if not (_BLKIO / "blkio.throttle.read_iops_device").exists():
        pytest.skip("no cgroup here throttles a disk's reads (blkio.throttle.read_iops_device)")
    group.mkdir()
    try:
        for file in files:
            file.write_bytes(os.urandom(1 << 20) * 16)
            with file.open("rb") as written:
                os.fsync(written.fileno())
            direct = ["--direct-io=on"] if file is files[1] else []
            argv = ["losetup", "--find", "--show", *direct, str(file)]
            disks.append(disk_of(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()))
        disk = device_of(files[1])
        (group / "blkio.throttle.read_iops_device").write_text(f"{disk.major}:{disk.minor} {_THROTTLED}\n")
        join = f'echo $$ > {group}/cgroup.procs; SLOW={disks[1].path} exec "$@"'
        engine = Standin(program, Path(disks[0].path), "sh", "-c", join, "sh")
        yield engine
        engine.kill()
    finally:
        for made in disks:
            subprocess.run(["losetup", "--detach", made.path], check=True)
        files[0].unlink(missing_ok=True)
        group.rmdir()


def test_of_reads_at_once_the_slow_one_is_the_path(throttled: Standin, tmp_path: Path) -> None:
    _, records = records_of(throttled, tmp_path, f"{_AT_ONCE} {_SLOW} slow")
    assert len(records) == _SLOW and sound(records)
    fast = throttled.data.stat().st_rdev
    fast_number = os.major(fast) << 20 | os.minor(fast)
    shares, awaited = [], 0
    for one in records:
        (slow,) = [span for span in one.spans if span.is_request and span.device != fast_number]
        # The cgroup lets some through at once.
        if slow.runs - slow.woken < _LONG_NS:
            continue
        last = max((wait for wait in one.waits if wait.awaited), key=lambda wait: wait.woken)
        awaited += one.spans[last.awaited - 1] == slow
        shares.append(one.parts[PARTS.index("device")] / (slow.runs - slow.woken))
    assert len(shares) >= _SLOW / 3
    # A thread that a busy host keeps off its CPU until all is done waits for none of them.
    assert awaited >= len(shares) - 2
    assert 0.95 <= sorted(shares)[len(shares) // 2] <= 1.05
