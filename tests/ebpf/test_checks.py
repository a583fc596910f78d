"""What is said of the eBPF programs' figures, and what their scripts' maps mean, without a kernel that runs any."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.bpftrace import SHORTEST_BELOW
from ebpf.diskstats import device_of_number, disk_counts, disk_window, partition_sectors
from ebpf.iolat import EVENTS_CHECK, io_latency_checks
from ground.errors import UsageError
from ground.results.checks import Check, Verdict
from ground.results.histogram import Histogram
from ground.results.io_latency import DiskWindow, IoKind, IoLatency, IoRow
from ground.results.off_cpu import OffCpu
from ground.system.diskstats import DiskCount, DiskCounts
from ioflame.instruments.runqlat import decode as decode_run_queue
from tests.viz.observers import io_latency, off_cpu


def said(latency: IoLatency) -> dict[str, Check]:
    return {check.name.removeprefix("iolat "): check for check in io_latency_checks(latency)}


def disk(reads: int, outer_reads: int | None = None, ms: int = 74) -> DiskWindow:
    inner, outer = (
        DiskCounts(DiskCount(count, 0, 8 * count, ms), DiskCount(), DiskCount(), DiskCount())
        for count in (reads, reads if outer_reads is None else outer_reads)
    )
    return DiskWindow(inner, outer)


def test_figures_that_the_device_confirms_are_ok() -> None:
    checks = said(io_latency())  # 500 reads of the process and 7 of others; the device counted 507
    assert {name: check.verdict for name, check in checks.items()} == {"losses": Verdict.OK, "coverage": Verdict.OK}
    assert checks["coverage"].value == "507 reads of 507 in diskstats"


def test_an_empty_result_and_one_without_the_process_fail() -> None:
    empty = replace(io_latency(), rows=[])
    assert said(empty)[EVENTS_CHECK.removeprefix("iolat ")].verdict is Verdict.FAILED
    others = replace(io_latency(), rows=[row for row in io_latency().rows if row.owner == "others"])
    found = said(others)["events"]
    assert (found.verdict, found.value) == (Verdict.FAILED, "no request of process 42 among 7")
    assert said(replace(others, backend="bcc"))["events"].verdict is Verdict.NOTE


@pytest.mark.parametrize(
    ("losses", "backend", "verdict"),
    [
        ({}, "bcc", Verdict.NOTE),
        ({"missed": 0}, "co-re", Verdict.OK),
        ({"no_start": 2}, "co-re", Verdict.NOTE),
        ({"no_start": 6, "no_end": 4}, "co-re", Verdict.WARN),
        ({"no_start": 11}, "co-re", Verdict.FAILED),
        ({"missed": 1}, "co-re", Verdict.NOTE),
        ({"missed": 1, "no_start": 9}, "co-re", Verdict.WARN),
        ({"missed": 11}, "co-re", Verdict.FAILED),
        ({"lost_start": 1}, "co-re", Verdict.FAILED),
        ({"missed": 50}, "bpftrace", Verdict.WARN),
        ({"missed": 51}, "bpftrace", Verdict.FAILED),
    ],
)
def test_losses_are_judged_by_their_share_and_by_what_a_backend_loses_by_nature(
    losses: dict[str, int], backend: str, verdict: Verdict
) -> None:
    assert said(replace(io_latency(), losses=losses, backend=backend))["losses"].verdict is verdict


def test_what_was_traced_has_to_be_what_the_device_did() -> None:
    few = said(replace(io_latency(), diskstats=disk(5000)))["coverage"]
    assert few.verdict is Verdict.FAILED and few.value == "507 reads of 5,000 in diskstats"
    assert said(replace(io_latency(), diskstats=disk(540), backend="bpftrace"))["coverage"].verdict is Verdict.WARN
    between = said(replace(io_latency(), diskstats=disk(400, 600)))["coverage"]
    assert between.value == "507 reads of 400 to 600 in diskstats"
    assert said(replace(io_latency(), diskstats=None))["coverage"].verdict is Verdict.NOTE


def test_what_device_mapper_counts_twice_is_compared_as_it_counts() -> None:
    found = io_latency()
    writes = IoRow("write", "process", Histogram(), Histogram(), replace(found.rows[0].total, count=45))
    flushing = IoKind("write", ["sync", "fua", "preflush"], 4096, "process", 5, 10)
    empty = IoKind("write", ["sync", "preflush"], 0, "process", 9, 10)
    counted = DiskCounts(DiskCount(507, 0, 8 * 507, 74), DiskCount(50, 0, 400), DiskCount(), DiskCount())
    found = replace(
        found, rows=[*found.rows, writes], kinds=[*found.kinds, flushing, empty], diskstats=DiskWindow(counted, counted)
    )
    plain = said(found)["coverage"]
    assert plain.value == "507 reads of 507, 45 writes of 50 in diskstats"
    mapped = said(replace(found, device=replace(found.device, name="dm-3")))["coverage"]
    assert mapped.verdict is Verdict.OK
    assert mapped.value.startswith("507 reads of 507, 50 writes of 50 in diskstats (of the writes, 5 that flush first")


def test_the_mean_of_two_clocks_is_compared_where_there_are_reads_enough() -> None:
    few = io_latency()
    assert "mean" not in said(few)
    rows = [replace(row, total=replace(row.total, count=2 * row.total.count)) for row in few.rows]
    mean_ms = sum(row.total.sum_ns for row in few.rows) / 1e6
    same = said(replace(few, rows=rows, diskstats=disk(1014, ms=round(mean_ms))))["mean"]
    assert same.verdict is Verdict.OK and "diskstats" in same.value
    assert said(replace(few, rows=rows, diskstats=disk(1014, ms=round(2 * mean_ms))))["mean"].verdict is Verdict.WARN


def test_requests_that_waited_or_were_held_back_and_processes_that_ended_are_named() -> None:
    found = said(replace(io_latency(), facts={"requeued": 100, "processes_ended": 1, "held_back": 9}))
    assert found["requeued"].value == "100 times in 507 requests" and found["processes"].value.startswith("1 ended")
    assert found["IO limit"].value.startswith("9 requests") and found["IO limit"].verdict is Verdict.NOTE


def script_output(**maps: object) -> str:
    return "\n".join(json.dumps({"type": "map", "data": {f"@{name}": rows}}) for name, rows in maps.items())


def durations(name: str, rows: dict[int, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """By number of the row: how many durations of how many ns; and one of a row of which nothing else was kept."""
    return {
        name: {"3,310": 1, **{f"{number},310": count for number, (count, _) in rows.items()}},
        f"{name}_sum": {str(number): count * ns for number, (count, ns) in rows.items()},
        f"{name}_shortest": {str(number): SHORTEST_BELOW - ns for number, (_, ns) in rows.items()},
        f"{name}_max": {str(number): ns for number, (_, ns) in rows.items()},
    }


def test_waits_in_the_run_queue_by_bpftrace_have_their_kinds() -> None:
    text = script_output(**durations("wait", {1: (900, 2000), 2: (5, 400_000)}), voluntary=1000, no_start=3)
    found = decode_run_queue(text, 42, (0, 10**9))
    assert {name: wait.count for name, wait in found.waits.items()} == {"woken": 900, "preempted": 5, "started": 0}
    assert (found.voluntary, found.involuntary) == (1000, 0)
    assert found.losses == {"no_start": 3, "negative": 0, "lost_wait": 1}


def test_what_the_kernel_counted_in_a_window_lies_between_its_edges() -> None:
    def counts(reads: int) -> DiskCounts:
        return DiskCounts(DiskCount(reads, 0, 8 * reads, reads), DiskCount(), DiskCount(), DiskCount())

    found = disk_window((counts(10), counts(12)), (counts(50), counts(55)))
    assert found is not None and (found.inner.read.requests, found.outer.read.requests) == (38, 45)
    assert disk_window((counts(10), None), (counts(50), counts(55))) is None


def test_a_device_is_known_by_its_number() -> None:
    with pytest.raises(UsageError, match="4095:7 is no block device"):
        device_of_number(4095, 7)
    # Loop devices and zrams come and go with tests beside this one.
    numbers = [path.name for path in Path("/sys/dev/block").iterdir() if "virtual" not in path.resolve().parts]
    for major, minor in (map(int, name.split(":")) for name in numbers):
        device = device_of_number(major, minor)
        assert Path(f"/sys/dev/block/{major}:{minor}").resolve().name == device.name
        sectors = partition_sectors(device)
        assert (sectors is not None) == device.partition and (sectors is None or sectors[0] < sectors[1])
        counted = disk_counts(device)
        assert counted is None or counted.read.requests >= 0


def test_a_thread_whose_parts_are_not_its_whole_fails_alone() -> None:
    def checked(found: OffCpu) -> Check:
        return next(check for check in found.checks() if check.name == "on-CPU + off-CPU")

    sound = off_cpu()
    assert (checked(sound).verdict, checked(sound).value) == (Verdict.OK, "100.00% of 3.000 s in 3 threads")
    # One of 60 sleeps, and what it waited before is not there: 1.6 % of all threads' time.
    others = [replace(sound.threads[0], tid=tid) for tid in range(10, 69)]
    total = {**sound.states, "io": replace(sound.states["io"], ns=59 * 700 * 10**6)}
    total["woken"] = replace(sound.states["woken"], ns=59 * 100 * 10**6)
    total["condition"] = replace(sound.states["condition"], ns=370 * 10**6)
    sleeper = replace(sound.threads[2], off_ns={"condition": 370 * 10**6})
    short = checked(replace(sound, threads=[*others, sleeper], states=total))
    assert short.verdict is Verdict.FAILED
    assert short.value == "98.95% of 60.000 s in 60 threads; 37.00% of rocksdb:low0 (3)'s"
    # A number that a second thread had in the same window is two parts of one whole.
    halves = [
        replace(sound.threads[0], end_ns=5 * 10**8, ended=True),
        replace(sound.threads[0], start_ns=5 * 10**8, started=True, ran_ns=0, off_ns={}),
    ]
    assert checked(replace(sound, threads=[*halves, *sound.threads[1:]])).verdict is Verdict.OK
