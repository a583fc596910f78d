"""Records of single queries: every query adds up, planted causes are found by name, and what is lost is said."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
from pathlib import Path

import pytest

from ebpf.tail import TailRequest, record_checks
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.query_records import PARTS, QueryRecord
from ground.results.tail import Tail, TailRow
from ioflame.instruments.tail import analyse
from tests.ebpf.conftest import Build
from tests.ebpf.windows import Standin, part_sums, records_of
from viz.tables.tail import tail_section, worst_section
from viz.terminal.table import section_text
from workloads.registry import DEFAULT_ENGINE, rules_named

pytestmark = [pytest.mark.needs("co-re")]

_MANY = 1009
_NAP_NS, _SPIN_NS = 5_000_000, 20_000_000


def analysed(directory: Path) -> Tail:
    return analyse(directory, rules_named(DEFAULT_ENGINE))[0]


def row(tail: Tail, name: str) -> TailRow:
    return next(row for row in tail.rows if row.name == name)


@pytest.mark.long
@pytest.mark.usefixtures("kernels")
def test_every_query_is_a_record_whose_parts_add_up_to_it(engine: Standin, tmp_path: Path) -> None:
    orders = engine.orders(f"1 {_MANY}", "0 50", "2 50")
    recorded, records = records_of(TailRequest(engine.pid, keep="all"), tmp_path, orders, engine)
    assert recorded.queries == recorded.followed == recorded.kept == len(records) == _MANY + 100
    assert sum(one.ns for one in records) == recorded.histogram.sum_ns
    assert [sum(one.reads == reads for one in records) for reads in (0, 1, 2)] == [50, _MANY, 50]
    asked = [one for one in records if one.reads]
    assert all(sum(span.is_request for span in one.spans) == one.reads for one in asked)
    assert sum(one.bytes for one in asked) == 8192 * (_MANY + 100)
    # What sleeps for its own request waits for the device.
    device = PARTS.index("device")
    assert all(one.parts[device] > 0 for one in asked if any(wait.awaited for wait in one.waits))
    assert any(wait.awaited for one in asked for wait in one.waits) and recorded.still_open == 0
    assert {name for name, count in recorded.losses.items() if count} <= {"missed_in", "requeued", "overtaken"}
    tail = analysed(tmp_path)
    assert tail.weighted_us == pytest.approx(tail.mean_us, rel=1e-6)
    assert "longest queries" in section_text(worst_section(tail)) and "Slow Gets" in section_text(tail_section(tail))
    assert json.loads((tmp_path / Files.TAIL_TRACE).read_text())["traceEvents"]
    assert "waits: io" in (tmp_path / Files.TAIL_FOLDED).read_text()


@pytest.mark.long
def test_a_ring_that_is_too_small_says_what_it_lost(engine: Standin, tmp_path: Path) -> None:
    # Queries that read nothing: a hundred thousand records a second, for a ring of a few hundred.
    request = TailRequest(engine.pid, keep="all", ring_bytes=1 << 16)
    recorded, records = records_of(request, tmp_path, engine.orders("0 200000"), engine)
    lost = recorded.losses["lost_slow"]
    assert lost > 0 and recorded.ring_bytes == 1 << 16
    assert len(records) + lost == recorded.histogram.count == 200_000
    assert {check.name: check.verdict for check in record_checks(recorded)}["tail losses"] is Verdict.WARN
    assert "slow queries were lost" in analysed(tmp_path).notes[0]


@pytest.mark.long
def test_one_in_four_is_followed_and_some_of_the_fast_are_kept(engine: Standin, tmp_path: Path) -> None:
    request = TailRequest(engine.pid, sample=4, expected=3)
    recorded, records = records_of(request, tmp_path, engine.orders("1 8000"), engine)
    assert recorded.queries == 8000
    # Gaps of 1 to 7, evenly drawn: their mean is known within 6 of its standard errors.
    assert abs(recorded.followed - 2000) < 6 * 2000**0.5 / 2
    kept = [one for one in records if one.weight]
    slow = sum(one.slow for one in kept)
    assert slow == recorded.slow and all(one.ns >= recorded.slow_ns for one in records if one.slow)
    assert all(one.weight == (1 if one.slow else recorded.one_in) for one in kept)
    # Samples are kept of all that were followed, slow or not.
    assert all(one.sampled for one in records if not one.weight)
    expected = (recorded.histogram.count - slow) / recorded.one_in
    assert abs(len(kept) - slow - expected) < 6 * math.sqrt(expected) + 6
    assert any("one query in 4 was followed" in note for note in analysed(tmp_path).notes)


def planted(engine: Standin, directory: Path, kind: int, ms: int) -> tuple[list[QueryRecord], Tail]:
    """Queries for 3.5 s, of so many ms, which do what an order in standin.cc says, among 7,000 that do nothing: an
    interval is of ten blocks of 250 ms at least."""
    number = 3500 // ms // 70
    orders = engine.orders(*(order for _ in range(70) for order in ("0 100", f"{kind} {number}")))
    # For so short a window each of the others is kept as well.
    request = TailRequest(engine.pid, threshold_us=ms * 900, expected=0.01)
    recorded, records = records_of(request, directory, orders, engine)
    assert recorded.queries == recorded.followed == 70 * (100 + number) and recorded.one_in == 1
    return records, analysed(directory)


@pytest.mark.long
def test_a_planted_nap_is_named_by_its_function(engine: Standin, tmp_path: Path) -> None:
    records, tail = planted(engine, tmp_path, -4, 5)
    slow = [one for one in records if one.slow]
    nap = row(tail, "sleep in planted_nap")
    # None of them ends early. A host that is busy makes others slow as well.
    assert len(slow) >= 700 and nap.tail_us * len(slow) >= 700 * _NAP_NS / 1e3
    assert nap.median_us == 0 and nap.gap is not None and nap.gap.leaves_zero
    assert tail.weighted_us == pytest.approx(tail.mean_us, rel=1e-6)


@pytest.mark.long
def test_a_lock_is_named_with_the_thread_that_held_it(engine: Standin, tmp_path: Path) -> None:
    _, tail = planted(engine, tmp_path, -7, 2)
    (holder,) = [
        int(task.name)
        for task in Path(f"/proc/{engine.pid}/task").iterdir()
        if (task / "comm").read_text() == "holder\n"
    ]
    lock = row(tail, "lock in planted_lock")
    assert lock.gap is not None and lock.gap.leaves_zero
    assert lock.waker is not None and lock.waker[0] == holder and lock.waker[1] >= 0.99


@pytest.mark.long
def test_what_slow_queries_compute_is_sampled_within_them(build: Build, data: Path, tmp_path: Path) -> None:
    # Before all others: the rest of the host makes none of the shorter ones slow.
    engine = Standin(build(), data, "chrt", "--fifo", "1")
    try:
        orders = engine.orders(*(order for _ in range(10) for order in ("-5 100", "-6 5")))
        request = TailRequest(engine.pid, threshold_us=20_000, expected=0.01)
        _, records = records_of(request, tmp_path, orders, engine)
    finally:
        engine.kill()
    # 999 times a second of the CPU: 20 in each slow query, two in most of the others.
    sampled = sum(one.sampled for one in records if one.slow)
    tail = analysed(tmp_path)
    assert tail.cpu_samples[0] == sampled > 500 and tail.cpu
    assert sum(one.tail_us for one in tail.cpu) == pytest.approx(row(tail, "on-CPU").tail_us, rel=1e-6)
    assert sum(one.median_us for one in tail.cpu) == pytest.approx(row(tail, "on-CPU").median_us, rel=1e-6)
    lines = [line.rsplit(" ", 1) for line in (tmp_path / Files.TAIL_FOLDED).read_text().splitlines()]
    ran = {stack: int(ns) for stack, ns in lines if stack.endswith(";on-CPU")}
    assert sum(ns for stack, ns in ran.items() if "planted_spin" in stack) > sum(ran.values()) / 2
    assert "planted_spin" not in (tmp_path / Files.TAIL_MEDIAN_FOLDED).read_text()


@pytest.mark.long
def test_what_the_device_has_besides_is_seen(engine: Standin, tmp_path: Path) -> None:
    block, begun, stop = bytes(1 << 20), threading.Event(), threading.Event()
    descriptor = os.open(tmp_path / "beside", os.O_WRONLY | os.O_CREAT)

    def write_on() -> None:
        while not stop.is_set():
            os.pwrite(descriptor, block, 0)
            os.fdatasync(descriptor)
            begun.set()

    def load() -> None:
        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            assert begun.wait(60)
            engine.query("1 5000")
        finally:
            stop.set()
            writer.join()
            os.close(descriptor)

    _, records = records_of(TailRequest(engine.pid, keep="all"), tmp_path, load, engine)
    beside = [span for one in records for span in one.spans if span.is_request and span.writes_beside]
    assert beside and max(span.kib_beside for span in beside) >= 64
    assert [one for one in analysed(tmp_path).beside if one.name == "writes that the device had"]


@pytest.mark.long
def test_a_cpu_that_is_shared_is_the_run_queue(build: Build, data: Path, tmp_path: Path) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    engine = Standin(build(), data, "taskset", "-c", cpu)
    hog = subprocess.Popen(["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"])
    try:
        request = TailRequest(engine.pid, keep="all")
        # Each computes for longer than the scheduler lets one of two run.
        _, records = records_of(request, tmp_path, engine.orders("-6 50"), engine)
    finally:
        hog.kill()
        hog.wait()
        engine.kill()
    sums = part_sums(records)
    # It spins by the CPU time that the scheduler counts, which has a part of each switch.
    assert sums["on_cpu"] >= 0.98 * 50 * _SPIN_NS
    # It has half of the CPU, or less.
    assert sums["run_queue"] > sums["on_cpu"] / 2
    assert row(analysed(tmp_path), "run queue").tail_us > 0
