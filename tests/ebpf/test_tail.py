"""Records of single queries: every query adds up, planted causes are found by name, and what is lost is said."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.tail import TailRequest, record_checks, tail_observer
from ground.errors import MeasurementError
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.query_records import PARTS, Recorded, RecordFile, read_query_records, read_recorded
from ground.results.tail import Tail, TailRow
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments.tail import analyse
from tests.ebpf.conftest import DB_FLAGS, DIRECT, SOURCES, Build
from tests.ebpf.test_ladder import Standin
from tests.programs import FRAMES, built
from tests.until import until
from viz.terminal.tail import tail_text, worst_text
from workloads.registry import DEFAULT_ENGINE, rules_named

pytestmark = [pytest.mark.alone, pytest.mark.needs("co-re")]

_SECONDS = 3.0
_LONG = 8.0
_FEW = 1009
# Before all others: what is planted is then the one thing that a query waits for.
FIRST = ("chrt", "--fifo", "1")

Read = Callable[..., int]


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, SOURCES / "planted.c", *FRAMES, "-shared", "-fPIC", "-pthread")


@pytest.fixture
def engine(build: Build, data: Path) -> Iterator[Standin]:
    engine = Standin(build(1, "-fno-omit-frame-pointer"), data)
    yield engine
    engine.kill()


@pytest.fixture
def read(db: Path, planted: Path) -> Iterator[Read]:
    """`read(what, threads, how it is scheduled)`: a db_bench with that planted, once it reads; its pid.

    With something planted it reads from the page cache: on a disk that pauses, others are slow as well.
    """
    started: list[subprocess.Popen[bytes]] = []

    def begin(what: str = "", threads: int = 1, *scheduled: str) -> int:
        command = [*scheduled, "db_bench", "--benchmarks=readrandom", "--use_existing_db=1"]
        command += [f"--db={db}", f"--threads={threads}"]
        environment = {**os.environ, "LD_PRELOAD": str(planted), "PLANTED": what}
        process = subprocess.Popen(
            [*command, "--duration=600", *DB_FLAGS, *([] if what else DIRECT)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(process)
        until(lambda: reads_of(process.pid) > 5000, process)
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


def reads_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().partition("syscr: ")[2].split()[0])


def record(request: TailRequest, directory: Path, seconds: float) -> tuple[Recorded, RecordFile]:
    with Children() as children:
        observer = tail_observer(request, children, directory)
        with attached(observer, Reporter(quiet=True)):
            observer.open()
            time.sleep(seconds)  # the window itself
            observer.close()
    return read_recorded(directory / Files.RECORDED), read_query_records(directory / Files.QUERY_RECORDS)


def analysed(directory: Path) -> Tail:
    return analyse(directory, rules_named(DEFAULT_ENGINE))[0]


def row(tail: Tail, name: str) -> TailRow:
    return next(row for row in tail.rows if row.name == name)


def test_every_query_is_a_record_whose_parts_add_up_to_it(engine: Standin, tmp_path: Path) -> None:
    engine.order("go")
    with Children() as children:
        observer = tail_observer(TailRequest(engine.pid, keep="all"), children, tmp_path)
        with attached(observer, Reporter(quiet=True)):
            engine.query("stop")
            observer.open()
            engine.query(f"1 {_FEW}")
            engine.query("0 50")
            engine.query("2 50")
            observer.close()
    recorded = read_recorded(tmp_path / Files.RECORDED)
    records = read_query_records(tmp_path / Files.QUERY_RECORDS).records
    assert recorded.queries == recorded.followed == recorded.kept == len(records) == _FEW + 100
    assert all(sum(one.parts) == one.ns for one in records)
    assert sum(one.ns for one in records) == recorded.histogram.sum_ns
    assert [sum(one.reads == reads for one in records) for reads in (0, 1, 2)] == [50, _FEW, 50]
    asked = [one for one in records if one.reads]
    assert all(sum(span.is_request for span in one.spans) == one.reads for one in asked)
    assert sum(one.bytes for one in asked) == 8192 * (_FEW + 100)
    # What sleeps for its own request waits for the device.
    device = PARTS.index("device")
    slept = [one for one in asked if any(True for _ in one.waits)]
    assert slept and sum(one.parts[device] > 0 for one in slept) >= 0.95 * len(slept)
    assert recorded.uneven == 0 and recorded.still_open == 0
    lost = {name: count for name, count in recorded.losses.items() if count}
    assert lost.keys() <= {"missed_in", "requeued"}
    tail = analysed(tmp_path)
    assert tail.weighted_us == pytest.approx(tail.mean_us, rel=1e-6)
    assert "longest queries" in worst_text(tail) and "Slow Gets" in tail_text(tail)
    assert json.loads((tmp_path / Files.TAIL_TRACE).read_text())["traceEvents"]
    assert "waits: io" in (tmp_path / Files.TAIL_FOLDED).read_text()


def test_a_ring_that_is_too_small_says_what_it_lost(engine: Standin, tmp_path: Path) -> None:
    engine.order("go")
    request = TailRequest(engine.pid, keep="all", ring_bytes=1 << 16)
    recorded, file = record(request, tmp_path, _SECONDS)
    engine.query("stop")
    lost = recorded.losses["lost_slow"]
    assert lost > 0 and recorded.ring_bytes == 1 << 16
    assert len(file.records) + lost == recorded.histogram.count
    assert {check.name: check.verdict for check in record_checks(recorded)}["tail losses"] is Verdict.WARN
    assert "slow queries were lost" in analysed(tmp_path).notes[0]


def test_one_in_four_is_followed_and_some_of_the_fast_are_kept(engine: Standin, tmp_path: Path) -> None:
    engine.order("go")
    recorded, file = record(TailRequest(engine.pid, sample=4, expected=_SECONDS), tmp_path, _SECONDS)
    engine.query("stop")
    assert recorded.followed == pytest.approx(recorded.queries / 4, rel=0.1)
    kept = [one for one in file.records if one.weight]
    slow = sum(one.slow for one in kept)
    others = len(kept) - slow
    assert slow == recorded.slow and all(one.ns >= recorded.slow_ns for one in file.records if one.slow)
    assert all(one.weight == (1 if one.slow else recorded.one_in) for one in kept)
    # Samples are kept of all that were followed, slow or not.
    assert all(one.sampled for one in file.records if not one.weight)
    expected = (recorded.histogram.count - slow) / recorded.one_in
    assert abs(others - expected) < 5 * math.sqrt(expected) + 5
    # The mean by weights is that of all, as far as so many of the others tell.
    tail, fast = analysed(tmp_path), [one.ns for one in kept if not one.slow]
    error_us = statistics.stdev(fast) / math.sqrt(len(fast)) / 1e3 + tail.mean_us / math.sqrt(expected)
    assert abs(tail.weighted_us - tail.mean_us) < 5 * error_us
    assert any("one query in 4 was followed" in note for note in analysed(tmp_path).notes)


def test_a_process_without_queries_is_refused(engine: Standin, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no query can be followed"):
        record(TailRequest(engine.pid), tmp_path, 0.1)


def napping(read: Read, directory: Path) -> tuple[Recorded, RecordFile]:
    """Of Gets of which one in a hundred naps for 5 ms."""
    # For so short a window each of the others is kept as well: of one in thirty the mean is off by 1 to 3 %.
    request = TailRequest(read("nap", 1, *FIRST), threshold_us=4000, expected=0.01)
    return record(request, directory, _LONG)


def locking(read: Read, directory: Path) -> int:
    """Records Gets that take a lock which a thread holds for 2 ms every 50 ms; that thread."""
    pid = read("lock", 1, *FIRST)
    # Reads of the page cache come so often that following them is dear.
    record(TailRequest(pid, threshold_us=1000, expected=_LONG, force=True), directory, _LONG)
    (holder,) = [
        int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if (task / "comm").read_text() == "holder\n"
    ]
    return holder


@pytest.mark.needs("db_bench")
def test_a_planted_nap_is_named_by_its_function(read: Read, tmp_path: Path) -> None:
    recorded, file = napping(read, tmp_path)
    tail = analysed(tmp_path)
    nap = row(tail, "sleep in planted_nap")
    assert nap is max(tail.rows, key=lambda row: row.share or 0.0)
    assert nap.gap is not None and nap.gap.leaves_zero
    assert all(sum(one.parts) == one.ns for one in file.records)
    assert recorded.one_in == 1 and tail.weighted_us == pytest.approx(tail.mean_us, rel=0.01)


@pytest.mark.by_hand
@pytest.mark.needs("db_bench")
def test_a_planted_nap_is_the_surplus_of_the_queries_that_had_it(read: Read, tmp_path: Path) -> None:
    """On a host that nobody takes CPU time from: what is stolen is on-CPU, and makes other queries slow."""
    recorded, file = napping(read, tmp_path)
    nap = row(analysed(tmp_path), "sleep in planted_nap")
    assert nap.share is not None and nap.share >= 0.95
    assert 5000 <= nap.tail_us <= 5400
    slow = [one for one in file.records if one.slow]
    # One read in a hundred: all of them are Gets of one read, or next to all.
    reads = recorded.histogram.count
    assert abs(len(slow) - reads / 100) < 3 * math.sqrt(reads / 100) + 0.01 * reads / 100 + 3


@pytest.mark.needs("db_bench")
def test_what_slow_queries_compute_is_sampled_within_them(read: Read, tmp_path: Path) -> None:
    request = TailRequest(read("spin", 1, *FIRST), threshold_us=4000, expected=2 * _LONG)
    _, file = record(request, tmp_path, 2 * _LONG)
    slow = [one for one in file.records if one.slow]
    sampled = sum(one.sampled for one in slow)
    assert sampled > 100 and all(
        one.begin_ns <= span.left <= one.end_ns for one in file.records for span in one.samples
    )
    tail = analysed(tmp_path)
    assert tail.cpu_samples[0] == sampled and tail.cpu
    assert sum(one.tail_us for one in tail.cpu) == pytest.approx(row(tail, "on-CPU").tail_us, rel=1e-6)
    assert sum(one.median_us for one in tail.cpu) == pytest.approx(row(tail, "on-CPU").median_us, rel=1e-6)
    lines = [line.rsplit(" ", 1) for line in (tmp_path / Files.TAIL_FOLDED).read_text().splitlines()]
    ran = {stack: int(ns) for stack, ns in lines if stack.endswith(";on-CPU")}
    spin = sum(ns for stack, ns in ran.items() if "planted_spin" in stack)
    assert spin > sum(ran.values()) / 2
    assert "planted_spin" not in (tmp_path / Files.TAIL_MEDIAN_FOLDED).read_text()


@pytest.mark.needs("db_bench")
def test_what_the_device_has_besides_is_seen(read: Read, tmp_path: Path) -> None:
    pid = read("")
    block = b"-" * (1 << 20)
    descriptor = os.open(tmp_path / "beside", os.O_WRONLY | os.O_CREAT)

    def write_on(stop: threading.Event) -> None:
        while not stop.is_set():
            os.pwrite(descriptor, block, 0)
            os.fdatasync(descriptor)

    stop = threading.Event()
    writer = threading.Thread(target=write_on, args=(stop,))
    writer.start()
    try:
        _, file = record(TailRequest(pid, expected=_SECONDS), tmp_path, _SECONDS)
    finally:
        stop.set()
        writer.join()
        os.close(descriptor)
    asked = [span for one in file.records for span in one.spans if span.is_request]
    beside = [span for span in asked if span.writes_beside]
    assert len(beside) > 0.02 * len(asked) and max(span.kib_beside for span in beside) >= 128
    (writes,) = [one for one in analysed(tmp_path).beside if one.name == "writes that the device had"]
    assert writes.tail > 0


@pytest.mark.needs("db_bench")
def test_a_lock_is_named_with_the_thread_that_held_it(read: Read, tmp_path: Path) -> None:
    holder = locking(read, tmp_path)
    lock = row(analysed(tmp_path), "lock in planted_lock")
    assert lock.gap is not None and lock.gap.leaves_zero
    assert lock.waker is not None and lock.waker[0] == holder and lock.waker[1] >= 0.99


@pytest.mark.by_hand
@pytest.mark.needs("db_bench")
def test_a_lock_is_what_slow_queries_wait_for_most(read: Read, tmp_path: Path) -> None:
    """On a host that nobody takes CPU time from, as above."""
    locking(read, tmp_path)
    tail = analysed(tmp_path)
    assert row(tail, "lock in planted_lock") is max(tail.rows, key=lambda row: row.share or 0.0)


@pytest.mark.needs("db_bench")
def test_with_cpu_hogs_the_surplus_is_the_run_queue(read: Read, tmp_path: Path) -> None:
    pid = read("", 2)
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        record(TailRequest(pid, expected=_LONG), tmp_path, _LONG)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    queue = row(analysed(tmp_path), "run queue")
    assert queue.share is not None and queue.share >= 0.8
