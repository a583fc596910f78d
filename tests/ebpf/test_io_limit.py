"""A process whose control group has an IO limit: what was held back is its own, the wait for its turn has a name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ebpf.ladder import LadderRequest
from ebpf.tail import TailRequest
from ground.results.io_latency import read_io_latency
from ground.system.limits import hierarchy_of, own_name
from tests.ebpf.off_cpu_windows import observe_load
from tests.ebpf.requests_window import seen
from tests.ebpf.windows import Standin, ladder_of, observed, part_sums, records_of
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]

# Each read is held back for about 1 / so many seconds.
_READS_A_SECOND = 100
_FEW = 41
# No BPF program sees the end of a request that interrupts a thread of process 1.
_UNSEEN = 2


@pytest.fixture
def limited(engine: Standin) -> Iterator[Standin]:
    """The stand-in engine in a control group of few reads a second."""
    hierarchy = hierarchy_of("blkio") or hierarchy_of("io")
    if hierarchy is None:
        pytest.skip("no control groups for IO are mounted")
    group, disk = hierarchy.own / f"{own_name()}-io", engine.data.stat().st_dev
    group.mkdir()
    try:
        file, limit = ("io.max", "riops=") if hierarchy.unified else ("blkio.throttle.read_iops_device", "")
        (group / file).write_text(f"{os.major(disk)}:{os.minor(disk)} {limit}{_READS_A_SECOND}")
        (group / "cgroup.procs").write_text(str(engine.pid))
        yield engine
    finally:
        engine.kill()
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_its_reads_are_its_own_and_said_to_be_held_back(limited: Standin, tmp_path: Path) -> None:
    out, device = tmp_path / "iolat.json", limited.data.stat().st_dev
    request = IoLatencyRequest([limited.pid], (os.major(device), os.minor(device)))
    observed(lambda children: io_latency_observer(request, children, out), limited.orders(f"1 {_FEW}"))
    latency = read_io_latency(out)
    unseen = latency.losses["no_end"] + latency.facts["unfinished"]
    assert latency.row("read", "process").total.count in range(_FEW - unseen, _FEW + 1)
    assert 0 < latency.facts["held_back"] <= _FEW


def test_its_file_and_its_thread_are_known(limited: Standin, tmp_path: Path) -> None:
    found = seen(tmp_path, limited.orders(f"1 {_FEW}"), device=limited.data, pid=limited.pid, children=False)
    # By its inode: another worker's process may read its own file of that name, on the same device.
    reads = found.of_file(limited.data, "read")
    assert _FEW - found.unseen <= len(reads) <= _FEW
    owned = [found.count(operation="read", owner=owner) for owner in ("process", "database")]
    assert sum(owned) == len(reads)
    assert {found.traced.threads[one.thread].pid for one in reads} == {limited.pid}


def test_of_a_query_the_time_until_its_turn_is_a_part_of_its_own(limited: Standin, tmp_path: Path) -> None:
    ladder = ladder_of(LadderRequest(limited.pid, 1), tmp_path, limited.orders(f"1 {_FEW}"), limited)
    parts = ladder.several
    assert parts is not None and ladder.of_class("foreign").count <= _UNSEEN
    ns = {part.name: part.sum_ns for part in parts.parts}
    # Nobody but the limit keeps these reads for so long.
    assert ns["throttle"] > sum(ns.values()) / 2 and ns["sleep"] < ns["throttle"] / 10
    assert ladder.stage("sys_post").sum_ns < ns["throttle"] / 10


def test_slow_queries_name_the_limit_and_the_request(limited: Standin, tmp_path: Path) -> None:
    load = limited.orders(f"1 {_FEW}")
    _, records = records_of(TailRequest(limited.pid, threshold_us=1), tmp_path, load, limited)
    sums = part_sums(records)
    # The limit holds back what came too soon: of reads that wait long for a CPU, less.
    others = sum(sums.values()) - sums["run_queue"] - sums["on_cpu"]
    assert sums["throttle"] > others / 2 and sums["others_device"] < sums["throttle"] / 10
    assert sum(sum(span.is_request for span in one.spans) != 1 for one in records) <= _UNSEEN


def test_a_thread_that_is_held_back_is_not_idle(limited: Standin, tmp_path: Path) -> None:
    off = observe_load(limited.pid, tmp_path, limited.orders(f"1 {_FEW}"))
    (reader,) = [thread for thread in off.threads if thread.off_ns.get("io", 0) > thread.life_ns / 10]
    assert not reader.is_idle
