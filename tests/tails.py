"""Records of single queries, made in code: files as the programs write them, and worlds whose answer is known."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping, Sequence

from folding.wait_places import WaitPlace
from ground.results.histogram import Histogram
from ground.results.interval import Interval
from ground.results.probes import ProbedFunction, Trap
from ground.results.query_records import PARTS, Pilot, QueryRecord, Recorded, RecordFile, Span
from ground.results.states import STATES
from ground.results.tail import (
    BesideRow,
    CpuRow,
    MixRow,
    Strip,
    Tail,
    TailGroup,
    TailRow,
    Threshold,
    WorstQuery,
    WorstRequest,
    WorstWait,
)  # fmt: skip

STATE_NAMES = tuple(STATES)
SECOND = 10**9
START = 5 * SECOND
PLACES: Mapping[int, WaitPlace] = {
    1: WaitPlace("sleep", ("start", "Get", "planted_nap", "clock_nanosleep", "hrtimer_[k]"), "planted_nap"),
    2: WaitPlace("lock", ("start", "Get", "Cache::Lookup", "pthread_mutex_lock", "futex_[k]"), "Cache::Lookup"),
    3: WaitPlace("io", ("start", "Get", "pread64", "io_schedule_[k]"), "pread64"),
    4: WaitPlace("on_cpu", ("start", "Get", "crc32c"), "crc32c", "verify block checksums"),
    5: WaitPlace("on_cpu", ("start", "Get", "pread64", "vfs_read_[k]"), "pread64", "the read call: libc and kernel"),
}

_RECORD = [
    ("begin_ns", "Q"), ("end_ns", "Q"), ("own_ns", "Q"), ("bytes", "Q"), ("parts", "10Q"), ("tid", "I"),
    ("weight", "I"), ("reads", "I"), ("min_flt", "I"), ("maj_flt", "I"), ("flags", "H"), ("spans", "H"),
    ("waits_beyond", "H"), ("requests_beyond", "H"), ("samples", "I"),
]  # fmt: skip
_SPAN = [
    ("at", "3Q"), ("place", "I"), ("who", "I"), ("kind", "H"), ("part", "H"), ("awaited", "H"), ("state", "H"),
    ("bytes", "I"), ("device", "I"), ("reads_beside", "H"), ("writes_beside", "H"), ("others_beside", "H"),
    ("kib_beside", "H"),
]  # fmt: skip


def _described(fields: Sequence[tuple[str, str]]) -> dict[str, object]:
    placed, at = [], 0
    for name, form in fields:
        placed.append([name, form, at])
        at += struct.calcsize(f"<{form}")
    return {"bytes": at, "fields": placed}


def file_bytes(records: Sequence[QueryRecord], **instead: object) -> bytes:
    """`records.bin` of these. instead: of its description"""
    parts = len(records[0].parts) if records else len(PARTS)
    fields = [(name, form.replace("10Q", f"{parts}Q")) for name, form in _RECORD]
    description = {
        "schema": 1, "clock": "CLOCK_MONOTONIC", "clocks": [1, 2], "record": _described(fields),
        "span": _described(_SPAN), "parts": list(PARTS), "states": list(STATE_NAMES),
        "kinds": ["wait", "request", "sample"],
        **instead,
    }  # fmt: skip
    text = json.dumps(description).encode()
    text += b" " * (-len(text) % 8)
    out = [b"ioflrec\n", struct.pack("<II", 1, 16 + len(text)), text]
    for one in records:
        out.append(
            struct.pack(
                f"<4Q{parts}Q5I4HI", one.begin_ns, one.end_ns, one.own_ns, one.bytes, *one.parts, one.tid, one.weight,
                one.reads, one.min_flt, one.maj_flt, int(one.slow), len(one.spans), one.waits_beyond,
                one.requests_beyond, one.sampled,
            )
        )  # fmt: skip
        out += [struct.pack("<3Q2I4H2I4H", *span) for span in one.spans]
    return b"".join(out)


def wait(left: int, woken: int, runs: int, state: str, place: int, who: int = 0, awaited: int = 0) -> Span:
    """A wait for the device where its state is `io`, else a blocked one; us from the query's begin in its record."""
    part = {"io": "device", "preempted": "run_queue"}.get(state, "blocked")
    return Span(left, woken, runs, place, who, 0, PARTS.index(part), awaited, STATE_NAMES.index(state), 0, 0)


def sample(at: int, place: int) -> Span:
    return Span(at, at, at, place, 0, 2, 0, 0, 0, 0, 0)


def request(begun: int, issued: int, completed: int, reads: int = 0, writes: int = 0, kib: int = 0) -> Span:
    """reads, writes, kib: that the device had besides"""
    return Span(begun, issued, completed, 0, 0, 1, 0, 0, 0, 4096, 254 << 20, reads, writes, 0, kib)


def query(begin_us: float, us: float, *spans: Span, slow: bool = False, reads: int = 1, tid: int = 7) -> QueryRecord:
    """A query; the points of its spans are us from its begin. What is not waited is on the CPU."""
    begin = START + round(begin_us * 1000)
    ns = round(us * 1000)
    parts = [0] * len(PARTS)
    placed = []
    for span in spans:
        if not span.kind:
            parts[span.part] += (span.woken - span.left) * 1000
            parts[PARTS.index("run_queue")] += (span.runs - span.woken) * 1000
        left, woken, runs = (begin + 1000 * at for at in (span.left, span.woken, span.runs))
        placed.append(span._replace(left=left, woken=woken, runs=runs))
    parts[0] = ns - sum(parts)
    assert parts[0] >= 0
    sampled = sum(span.kind == 2 for span in spans)
    return QueryRecord(
        begin, begin + ns, 2000, 4096 * reads, tuple(parts), tid, 1, reads, 0, 0, slow, tuple(placed), 0, 0, sampled
    )


def recorded(records: Sequence[QueryRecord], count: int, seconds: float = 10.0, **instead: object) -> Recorded:
    """`records.json` of a window in which `count` queries ended; the slow ones are all in `records`."""
    slow = [one for one in records if one.slow]
    others = [one for one in records if not one.slow]
    mean = sum(one.ns for one in others) / len(others) if others else 0.0
    total = round(sum(one.ns for one in slow) + mean * (count - len(slow)))
    given = {
        "backend": "co-re", "pid": 42, "start_ns": START, "end_ns": START + round(seconds * SECOND), "sample": 1,
        "slow_ns": min((one.ns for one in slow), default=0), "threshold_ns": None, "one_in": 10, "ring_bytes": 1 << 24,
        "notes": [], "query": [ProbedFunction("Get(int)", "/lib/engine.so", 200)], "uprobes": "exits",
        "trap": Trap(550.0, 6600.0, 700.0), "pilot": Pilot(1.0, 12_000.0, 12_000, 400_000, 0.0066),
        "queries": count, "followed": count, "threads": 1, "histogram": Histogram(count, total, 1, 1, []),
        "own_ns": 2000 * count, "slow": len(slow), "kept": len(records), "still_open": 0, "linger_ns": 0,
        "waits_beyond": 0, "requests_beyond": 0, "uneven": 0, "places": 3, **instead,
    }  # fmt: skip
    return Recorded(**given)  # type: ignore[arg-type]


def naps(n: int = 20_000, seed: int = 5) -> tuple[Recorded, RecordFile]:
    """Queries of about 100 us, 60 of them the device; 3 % sleep 5 ms longer in a planted nap, and these are slow."""
    draw = random.Random(seed)
    records = []
    for number in range(n):
        begin = number * 10e6 / n
        device = draw.randrange(50, 70)
        # No two are equally long.
        jitter = draw.random()
        io = wait(10, 10 + device, 20 + device, "io", 3)
        if draw.random() < 0.03:
            nap = wait(30 + device, 5030 + device, 5035 + device, "sleep", 1)
            records.append(query(begin, 5050 + device + jitter, io, nap, slow=True))
        elif number % 10 == 0:
            records.append(query(begin, 40 + device + jitter, io))
    return recorded(records, n), RecordFile(records, STATE_NAMES, (1, 2))


def tail() -> Tail:
    """Figures that a test can add up in its head: 4,300 us against 200."""
    rows = [
        TailRow("on-CPU", "on-CPU", 100.0, 50.0, Interval(50.0, 40.0, 60.0, 80), 50 / 4100),
        TailRow("run queue", "run queue", 200.0, 50.0, Interval(150.0, 120.0, 180.0, 80), 150 / 4100),
        TailRow("device", "device", 3600.0, 100.0, Interval(3500.0, 3300.0, 3900.0, 80), 3500 / 4100),
        TailRow(
            "lock in Cache::Lookup", "lock", 400.0, 0.0, Interval(400.0, 300.0, 500.0, 80), 400 / 4100, (4712, 0.995)
        ),
    ]
    worst = WorstQuery(
        START + SECOND, 9_000_000, 4711, 1,
        {"on-CPU": 400_000, "run queue": 100_000, "device": 8_000_000, "lock": 500_000},
        [
            WorstWait(100_000, 8_100_000, 8_150_000, "device", "pread64", 0),
            WorstWait(8_200_000, 8_700_000, 8_750_000, "lock", "Cache::Lookup", 4712),
        ],
        [WorstRequest(90_000, 110_000, 8_090_000, 8192, "254:0")],
    )  # fmt: skip
    return Tail(
        42, START, START + 20 * SECOND, 1, 240_000, 240_000, 239_990, 4, 240.5, 240.0, 0.0434,
        Threshold(812_000, 801_000, 823_000, 0.99, False),
        TailGroup(2400, 2400.0, 4300.0, 812_000, 9_000_000), TailGroup(401, 48_000.0, 200.0, 181_000, 219_000),
        rows, Interval(4100.0, 3900.0, 4300.0, 80),
        [MixRow(1, 0.9, 1.0, 4200.0, 200.0), MixRow(3, 0.1, 0.0, 5200.0, None)], 250.0, 3850.0, (3.1, 2.2), 0, [worst],
        ["2 queries had not ended 2.0 s after the window: they are not shown"],
        [
            CpuRow("the read call: libc and kernel", 70.0, 40.0, Interval(30.0, 25.0, 35.0, 60)),
            CpuRow("verify block checksums", 30.0, 10.0, Interval(20.0, -1.0, 41.0, 60)),
        ],
        (412, 903),
        [
            BesideRow("writes that the device had", "requests", 6.0, 0.5, Interval(5.5, 5.0, 6.0, 60)),
            BesideRow("while a compaction ran", "% of queries", 92.0, 31.0, Interval(61.0, 40.0, 80.0, 60)),
        ],
        Strip(
            20.0, [(1.5, 900.0), (7.25, 9000.0)], 2400, [(0.0, 0.5, 6.0), (7.2, 1.0, 2.0)], 0.2,
            [("compaction", 6.0, 9.5)],
        ),
    )  # fmt: skip
