"""Records of single queries: what the eBPF room writes of a window (`records.json`, `records.bin`)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ground.errors import MeasurementError
from ground.results.histogram import Histogram
from ground.results.probes import ProbedFunction, Trap
from ground.results.ranges import Amount, Count, Windowed
from ground.system.atomic_files import json_reader, read_whole

# The parts of a query's time, in the order of the file. The states of the waits subdivide `blocked`.
PARTS = (
    "on_cpu", "run_queue", "block_queue", "device", "wake_up", "others_device", "unknown_io", "page_fault", "blocked",
    "throttle",
)  # fmt: skip
ON_CPU, BLOCKED = PARTS.index("on_cpu"), PARTS.index("blocked")

_MAGIC = b"ioflrec\n"
_SCHEMA = 1
_START = struct.Struct("<8sII")
_SPAN = struct.Struct("<3Q2I4H2I4H")
_RECORD_FIELDS = (
    "begin_ns", "end_ns", "own_ns", "bytes", "parts", "tid", "weight", "reads", "min_flt", "maj_flt",
    "flags", "spans", "waits_beyond", "requests_beyond", "samples",
)  # fmt: skip
_SPAN_FIELDS = (
    "at", "place", "who", "kind", "part", "awaited", "state", "bytes", "device", "reads_beside", "writes_beside",
    "others_beside", "kib_beside",
)  # fmt: skip
_PARTS_AT = 4
# Of files of before IO limits were seen.
_FEWER_PARTS = PARTS[:-1]
_SLOW = 1
_WAIT, _REQUEST, _SAMPLE = range(3)


class Span(NamedTuple):
    """A wait or an own request of a query, or a sample of where it ran.

    left, woken, runs: of a wait: it left its CPU, was woken, ran again; of a request: begun, issued, completed (0: not
              seen); of a sample: its time; ns, CLOCK_MONOTONIC
    place:    of a wait: its state and stacks, of a sample its stacks: a thread of this number in the recording of
              stacks; 0 where preempted
    who:      tid of what woke it; of an interrupt's wake-ups it means nothing
    kind:     0 a wait, 1 a request, 2 a sample
    part:     of PARTS: what the time from `left` to `woken` is
    awaited:  the span, counted from 1, of the request that a wait was for; 0: none
    state:    of `RecordFile.states`
    bytes, device: of a request; device is major << 20 | minor
    reads_beside, writes_beside, others_beside, kib_beside: what the device had besides when it was handed a request
    """

    left: int
    woken: int
    runs: Count
    place: int
    who: int
    kind: int
    part: int
    awaited: int
    state: int
    bytes: Count
    device: int
    reads_beside: Count = 0
    writes_beside: Count = 0
    others_beside: Count = 0
    kib_beside: Count = 0

    @property
    def is_request(self) -> bool:
        return self.kind == _REQUEST


class QueryRecord(NamedTuple):
    """One query.

    begin_ns, end_ns: CLOCK_MONOTONIC
    own_ns:  of it in which our programs ran
    parts:   ns of each of PARTS; they add up to end - begin
    weight:  how many of the followed queries it represents; 0: kept for its samples alone
    reads:   read calls
    slow:    kept for its duration, not at random
    waits_beyond, requests_beyond: those that had no room; the parts have their time
    sampled: how often it was sampled while it ran; at most 8 of them, drawn at random, are spans
    """

    begin_ns: Count
    end_ns: Count
    own_ns: Count
    bytes: Count
    parts: tuple[int, ...]
    tid: int
    weight: Count
    reads: Count
    min_flt: Count
    maj_flt: Count
    slow: bool
    spans: tuple[Span, ...]
    waits_beyond: Count
    requests_beyond: Count
    sampled: Count = 0

    @property
    def ns(self) -> int:
        return self.end_ns - self.begin_ns

    @property
    def first_request(self) -> Span | None:
        """Of its own requests the first that was seen to be handed to the device."""
        return next((span for span in self.spans if span.is_request and span.woken), None)

    @property
    def waits(self) -> Iterator[Span]:
        return (span for span in self.spans if span.kind == _WAIT)

    @property
    def samples(self) -> Iterator[Span]:
        return (span for span in self.spans if span.kind == _SAMPLE)


@dataclass(frozen=True)
class RecordFile:
    """`records.bin`. states: names, by the numbers that waits have; clocks: CLOCK_MONOTONIC and CLOCK_REALTIME of one
    moment, ns"""

    records: list[QueryRecord]
    states: tuple[str, ...]
    clocks: tuple[int, int]


@dataclass(frozen=True)
class Pilot:
    """A second before the window.

    finished:   followed queries that ended in it; slow_ns: the 95th percentile of their durations
    trap_share: of a CPU, what the traps at the queries' entries will take: queries_per_second x the cost of one
    """

    seconds: Amount
    queries_per_second: Amount
    finished: Count
    slow_ns: Count
    trap_share: Amount


@dataclass(frozen=True)
class Recorded(Windowed):
    """`records.json`: one window in which queries were followed.

    slow_ns:   a query that took as long was kept for that; 0: all were. threshold_ns: where one was asked for
    one_in:    of the others one in so many was kept
    queries:   begun in the window; followed: one in `sample` of them; histogram: of all that were followed and ended
    own_ns:    of their time, in which our programs ran
    slow:      of them, at least as long as slow_ns; kept: records in the file
    still_open: followed ones that had not ended `linger_ns` after the window
    waits_beyond, requests_beyond: of kept records, without room of their own; their time is in the parts
    uneven:    records whose parts were more than the whole
    places:    different states and stacks of waits
    losses:    what was not counted or kept, by reason
    kind:      of the queries: get, multiget, seek ...
    """

    backend: str
    pid: Count
    start_ns: Count
    end_ns: Count
    sample: Count
    slow_ns: Count
    threshold_ns: Count | None
    one_in: Count
    ring_bytes: Count
    notes: list[str]
    query: list[ProbedFunction]
    uprobes: str
    trap: Trap
    pilot: Pilot
    queries: Count
    followed: Count
    threads: Count
    histogram: Histogram
    own_ns: Count
    slow: Count
    kept: Count
    still_open: Count
    linger_ns: Count
    waits_beyond: Count
    requests_beyond: Count
    uneven: Count
    places: Count
    losses: dict[str, Count] = field(default_factory=dict)
    kernel_symbols: bool = True
    process_ended: bool = False
    kind: str = "get"
    ended_soon_s: Amount | None = None
    schema: int = 1


read_recorded = json_reader(Recorded)


def read_query_records(path: Path) -> RecordFile:
    """`records.bin`. MeasurementError where it is missing, cut short or of another form."""
    data = read_whole(path)
    try:
        magic, schema, begin = _START.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("it does not begin as one")
        if schema != _SCHEMA:
            raise MeasurementError(f"{path} has schema {schema}; this ioflame reads schema {_SCHEMA}")
        head = json.loads(data[_START.size : begin])
        parts = tuple(head["parts"])
        if parts not in (PARTS, _FEWER_PARTS):
            raise ValueError(f"a query has other parts: {', '.join(map(str, parts))}")
        record = struct.Struct(f"<4Q{len(parts)}Q5I4HI")
        _check(head, record)
        return RecordFile(
            list(_records(memoryview(data), begin, record, len(parts))),
            tuple(head["states"]),
            msgspec.convert(head["clocks"], tuple[Count, Count]),
        )
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise MeasurementError(f"{path} is no file of records: {error}") from None


def _check(head: dict[str, Any], record: struct.Struct) -> None:
    """Whether what is where is what we know. ValueError otherwise."""
    for name, form, known in (("record", record, _RECORD_FIELDS), ("span", _SPAN, _SPAN_FIELDS)):
        there = tuple(found[0] for found in head[name]["fields"])
        if there != known or head[name]["bytes"] != form.size:
            raise ValueError(f"a {name} has other fields: {', '.join(map(str, there))}")


def _records(data: memoryview, at: int, record: struct.Struct, parts: int) -> Iterator[QueryRecord]:
    span, head, each = _SPAN.iter_unpack, record.size, _SPAN.size
    make, make_span = QueryRecord, Span._make
    last, absent = _PARTS_AT + parts, (0,) * (len(PARTS) - parts)
    while at < len(data):
        found = record.unpack_from(data, at)
        begin_ns, end_ns, own_ns, size = found[:_PARTS_AT]
        tid, weight, reads, min_flt, maj_flt, flags, spans, waits, requests, sampled = found[last:]
        at += head
        end = at + spans * each
        if end > len(data):
            raise ValueError("its last record is cut short")
        yield make(
            begin_ns, end_ns, own_ns, size, (*found[_PARTS_AT:last], *absent), tid, weight, reads, min_flt, maj_flt,
            bool(flags & _SLOW),
            tuple(map(make_span, span(data[at:end]))), waits, requests, sampled,
        )  # fmt: skip
        at = end
