"""What observers leave in a run, made in code: small, and with sums that a test can do in its head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ground.results.files import Files
from ground.results.histogram import Histogram
from ground.results.io_latency import Device, DiskWindow, IoLatency, IoRow, IoSlice
from ground.results.ladder import PLACES, STAGES, Ladder, LadderDevice, QueryParts, Rung
from ground.results.off_cpu import OffCpu, OffStack, RunQueue, StackFacts, StateTotal, Thread, WallClock, WallRow
from ground.results.pmp import Activity, Durations, Lacking, Locks, LockSite, Pmp, Tally, ThreadSamples
from ground.results.probes import Trap
from ground.results.request_attribution import AttributedRequests, FileRow, ReasonRow, RequestAttribution
from ground.results.requests import OperationTotal
from ground.results.write_ladder import StageFunction, WriteLadder, WritePilot, WriteRole, WriteStage
from ground.system.diskstats import DiskCount, DiskCounts
from ioflame.instruments import INSTRUMENTS
from tests.tails import tail
from viz.flame.stacks import Stack
from viz.page.flame_graphs import off_cpu_graph, pmp_graph
from viz.page.run_view import Observed, by_state

# us of each stage: 100 us in all, 60 of them in the block layer; runq is the largest part of the other 40.
STAGE_US = dict(zip(STAGES, (8, 1, 2, 2, 58, 1, 14, 1, 3, 10), strict=True))
IO_LAT_US = 65
QUERIES = 1000


def rung(name: str, us: float, count: int = QUERIES) -> Rung:
    """`count` durations of exactly `us`, in a bucket around it."""
    ns = round(us * 1000)
    return Rung(name, count, count * ns, ns, ns, [(ns - ns // 64, ns + ns // 64 + 1, count)])


def ladder(scale: float = 1.0) -> Ladder:
    stages = [rung(name, us * scale) for name, us in STAGE_US.items()]
    return Ladder(
        "co-re", 42, 10**9, 5 * 10**9, 8, "query", [], [], [], "exits", None, 8 * QUERIES, QUERIES, 1, stages,
        [rung("one_read", 100 * scale)], rung("outside", 4),
        LadderDevice(254, 0, "vda", QUERIES, QUERIES, 65), {}, False,
    )  # fmt: skip


def of_several(made: Ladder) -> Ladder:
    """The same with twice as many queries of three reads: 300 us, of them 10 us in each place but 200 in the device."""
    parts = [rung(name, 200 if name == "device" else 10, 2 * QUERIES) for name in PLACES]
    several = rung("several", 300, 2 * QUERIES)
    found = QueryParts(6 * QUERIES, 8 * QUERIES, 2 * QUERIES, parts)
    return replace(made, kind="multiget", classes=[*made.classes, several], several=found, followed=3 * QUERIES)


def histogram(*values: tuple[int, int]) -> Histogram:
    """(us, how many) in ascending order."""
    buckets = [(us * 1000, us * 1000 + us * 20, count) for us, count in values]
    total = sum(count * us * 1000 for us, count in values)
    return Histogram(sum(n for _, n in values), total, values[0][0] * 1000, buckets[-1][1] - 1, buckets)


def io_latency() -> IoLatency:
    process = IoRow(
        "read", "process", histogram((1, 500)), histogram((60, 450), (900, 50)), histogram((61, 450), (901, 50))
    )
    others = IoRow("read", "others", Histogram(), Histogram(), histogram((80, 7)))
    slices = [
        IoSlice((1 + second) * 10**9, [(61_000, 62_220, 90), (901_000, 919_020, 10)], [(80_000, 81_600, 1)])
        for second in range(1, 6)
    ]
    counts = DiskCounts(DiskCount(507, 0, 4056, 74), DiskCount(), DiskCount(), DiskCount())
    return IoLatency(
        "co-re", "tracepoints", Device(254, 0, "vda"), [42], False, 10**9, 6 * 10**9, [process, others], [], slices,
        {"missed": 0}, {}, DiskWindow(counts, counts),
    )  # fmt: skip


def thread(tid: int, comm: str, ran: int, **off: int) -> Thread:
    """ms on the CPU, and off it by state; 1,000 in all."""
    states = {name: ms * 10**6 for name, ms in off.items()}
    return Thread(tid, comm, 0, 10**9, False, False, ran * 10**6, ran * 10**6, states, 5, 1)


def off_cpu() -> OffCpu:
    threads = [
        thread(1, "db_bench", 200, io=700, woken=100), thread(2, "db_bench", 300, io=600, woken=100),
        thread(3, "rocksdb:low0", 0, condition=1000),
    ]  # fmt: skip
    states = {"io": StateTotal(1_300_000_000, 13_000), "woken": StateTotal(200_000_000, 13_000)}
    states["condition"] = StateTotal(10**9, 1)
    return OffCpu("co-re", 42, 0, 10**9, None, False, states, threads, StackFacts(3, 0, 0, 0), {}, True)


def off_stacks() -> list[Stack]:
    given = [
        OffStack(1, "db_bench", "io", ("start", "rocksdb::Get", "pread64", "io_schedule_[k]"), 700_000_000, 7000),
        OffStack(2, "db_bench", "io", ("start", "rocksdb::Get", "pread64", "io_schedule_[k]"), 600_000_000, 6000),
        OffStack(1, "db_bench", "woken", ("start", "rocksdb::Get", "pread64", "schedule_[k]"), 200_000_000, 13_000),
        OffStack(3, "rocksdb:low0", "condition", ("start", "futex_wait_[k]"), 10**9, 1),
    ]
    return by_state(given, {3})


def wall_clock() -> WallClock:
    rows = [
        WallRow("on-CPU", "libc+k", 300_000_000), WallRow("on-CPU", "bloom", 200_000_000),
        WallRow("io", "libc+k", 1_300_000_000), WallRow("woken", "libc+k", 200_000_000),
    ]  # fmt: skip
    return WallClock(2 * 10**9, 2, 10**9, 1, 500_000_000, 500_000_000, 20_000.0, rows)


def run_queue() -> RunQueue:
    waits = {"woken": histogram((2, 900), (50, 100)), "preempted": histogram((400, 5)), "started": Histogram()}
    return RunQueue("co-re", 42, 0, 10**9, waits, 1000, 5, {})


def locks(place: str = "rocksdb::lru_cache::LRUCacheShard::Lookup") -> Locks:
    site = LockSite(place, "mutex", "LRU", Tally(20, 2 * 10**8), Tally(5, 5 * 10**7))
    return Locks(
        "locks", Tally(100, 10**9), Tally(20, 2 * 10**8), Tally(5, 5 * 10**7), Tally(30, 3 * 10**8),
        Tally(40, 4 * 10**8),
        [site], [LockSite("LRU", "", "LRU", site.waiting, site.running)], [],
    )  # fmt: skip


def pmp() -> Pmp:
    none = Durations(0, 0, 0, 0, 0, 0, 0)
    return Pmp(
        "stacksampler", 42, "cpu-clock", 10.0, "fp", 0, 0, 10**9, "time", 10, 0, 100, 10**9,
        {"S": Tally(100, 10**9)},
        [ThreadSamples(1, "db_bench", 100, 10**9, {})], [], none, none, Lacking(), 0, [], False,
        Activity(1.0, 100, 90, 0.5, 0.1, 1000, 0.2, 0.1),
    )  # fmt: skip


def attributed(
    operation: str, owner: str, requests: int, kind: str = "", level: int | None = None, holds: str = ""
) -> AttributedRequests:
    """Of 8 KiB each, 1 us in the queue and 50 us at the device; flushes and what asks for them have no data."""
    size = 0 if owner == "no data" else 8192
    times = requests * 1000, requests * 50_000
    return AttributedRequests(operation, owner, "process", kind, level, "", holds, requests, requests * size, *times)


def attribution() -> RequestAttribution:
    rows = [
        attributed("read", "database", 400, "sst", 2, "data"), attributed("read", "database", 40, "sst", 1, "data"),
        attributed("read", "database", 30, "sst", 2, "index"), attributed("write", "database", 20, "wal"),
        attributed("read", "others", 7), attributed("write", "file system", 6, "metadata"),
        attributed("write", "no data", 4, "sync"), attributed("flush", "no data", 4, "flush"),
    ]  # fmt: skip
    totals = {
        name: OperationTotal(
            sum(row.requests for row in rows if row.operation == name),
            sum(row.bytes for row in rows if row.operation == name),
        )
        for name in ("read", "write", "flush", "discard", "other")
    }
    counts = DiskCounts(
        DiskCount(477, 0, 477 * 16), DiskCount(30, 0, 26 * 16), DiskCount(), DiskCount(requests=4, ms=1)
    )
    files = [
        FileRow("000012.sst", "", "database", "sst", 2, "", 1, 430, 430 * 8192, 21_500_000, 0, 0, 0),
        FileRow("000013.log", "", "database", "wal", None, "", None, 0, 0, 0, 20, 20 * 8192, 1_000_000),
        FileRow("/home/x", "", "others", "", None, "", None, 7, 7 * 8192, 350_000, 0, 0, 0),
    ]
    reasons = [
        ReasonRow("read", "get", "Get: one key", 2, 55, 440.0, 440.0 * 8192, 22e6),
        ReasonRow("read", "compaction", "files that are merged", 1, 4, 30.0, 30.0 * 8192, 1.5e6),
    ]
    return RequestAttribution(
        "co-re", "tp_btf", Device(254, 0, "vda"), [42], False, 10**9, 6 * 10**9, "rocksdb", "/db", "", [], rows, files,
        (0, 0), reasons, 8, 0, 0, 0, 0, 0, totals, {"no_end": 0}, {}, DiskWindow(counts, counts),
    )  # fmt: skip


def write_role(name: str, count: int, stages: Sequence[tuple[str, int]], join: Sequence[tuple[str, int]]) -> WriteRole:
    """`count` writes that all took the same: us of each stage, and of each part of the wait in the queue."""
    us = sum(us for _, us in stages)
    made = [
        [WriteStage(stage, count, count * us * 1000, us * 1000, 100 * count) for stage, us in parts]
        for parts in (stages, join)
    ]
    own = rung(name, us, count)
    return WriteRole(name, count, own.sum_ns, own.least_ns, own.most_ns, own.buckets, 100 * count, *made)


def write_ladder() -> WriteLadder:
    """100 groups of 3: a leader takes 400 us, 300 of them the sync that its followers wait for."""
    leader = [("enter", 1), ("join", 50), ("wal", 5), ("wal_write", 4), ("sync_call", 290), ("sync", 10), ("delay", 20)]
    roles = [
        write_role(
            "leader", 100, [*leader, ("memtable", 10), ("exit", 5), ("rest", 5)], [("sync_call", 30), ("wake_up", 20)]
        ),
        write_role(
            "parallel", 200, [("enter", 1), ("join", 350), ("memtable", 10), ("group_wait", 5), ("rest", 4)],
            [("wal", 5), ("sync_call", 300), ("hand_over", 20), ("wake_up", 20), ("in_queue", 5)],
        ),
    ]  # fmt: skip
    watched = [StageFunction("Engine::Write(Options const&)", "/lib/engine.so", 0, stage="write")]
    return WriteLadder(
        "co-re", 42, 10**9, 5 * 10**9, True, [], watched, [], True, "exits", Trap(500.0, 6600.0, 700.0),
        WritePilot(1.0, 75.0, 390_000.0, 12_000.0, 0.0009), 302, 3, 300, 0, 300, 100, 300, [(3, 100)], roles,
        {"nested": 0}, False,
    )  # fmt: skip


def results() -> dict[str, object]:
    """What instruments leave, by file: a new one has a row here, which the tests of pages and of `show` take."""
    return {
        Files.LADDER: ladder(), Files.IO_LATENCY: io_latency(), Files.OFF_CPU: off_cpu(), Files.RUN_QUEUE: run_queue(),
        Files.WALL_CLOCK: wall_clock(), Files.PMP: pmp(), Files.LOCKS: locks(),
        Files.REQUEST_ATTRIBUTION: attribution(), Files.TAIL: tail(), Files.WRITES: write_ladder(),
    }  # fmt: skip


def observed(stacks: Sequence[Stack] | None = None, **instead: object) -> Observed:
    """All that there is. stacks: off the CPU, by state; instead: results of their own, by the names of `Files`"""
    pmp_stacks = [Stack(("db_bench", "rocksdb::Get", "pread64", "uninterruptible_[D]"), 10**9, 100, "libc+k", 2)]
    found = only(**instead)
    found.results = {**results(), **found.results}
    found.graphs = [off_cpu_graph(off_stacks() if stacks is None else stacks, 20_000.0), pmp_graph(pmp_stacks)]
    found.rx_lat_us = 104.0
    return found


def only(**results: object) -> Observed:
    """These results alone, by the names of `Files`, and every panel that there is."""
    panels = [panel for one in INSTRUMENTS.values() for panel in one.panels]
    return Observed({getattr(Files, name): result for name, result in results.items()}, panels)
