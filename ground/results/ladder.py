"""The latency ladder of a query, as its file in a run directory holds it: stages that add up to the query."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ground.results.histogram import Histogram
from ground.results.probes import ProbedFunction, Trap
from ground.results.ranges import Amount, Count, Turn, Windowed
from ground.system.atomic_files import json_reader


@dataclass(frozen=True)
class Stage:
    """A stage for people: what it is between, and what happens in it.

    where: `engine`, `kernel` or `device`: whose time it is
    """

    start: str
    end: str
    about: str
    where: str


# In the order of a query's life.
STAGES: dict[str, Stage] = {
    "get_pre": Stage("query called", "file reader", "memtables, files, index, filter, block cache miss", "engine"),
    "rdr_pre": Stage("file reader", "read call", "aligned buffer, rate limiter", "engine"),
    "sys_pre": Stage("read call", "request begins", "file system, pages pinned, request made", "kernel"),
    "queue": Stage("request begins", "to the driver", "plug, IO scheduler", "device"),
    "device": Stage("to the driver", "request done", "the device, and its interrupt", "device"),
    "wake": Stage("request done", "waking begins", "end of the request, finding who waits", "kernel"),
    "runq": Stage("waking begins", "thread runs", "interrupt to its CPU, leaving idle, another thread there", "kernel"),
    "sys_post": Stage("thread runs", "read call returns", "pages released", "kernel"),
    "rdr_post": Stage("read call returns", "file reader returns", "copy, statistics", "engine"),
    "get_post": Stage("file reader returns", "query returns", "checksum, cache insert, search in block", "engine"),
}

# The stages as few parts that need no explanation, in the same order.
PARTS: dict[str, tuple[str, ...]] = {
    "engine, before the read": ("get_pre", "rdr_pre"),
    "kernel, until the request is made": ("sys_pre",),
    "storage device and its queue": ("queue", "device"),
    "kernel, waking the thread": ("wake",),
    "run-queue wait": ("runq",),
    "kernel, end of the read call": ("sys_post",),
    "engine, after the read: checksum, cache, search": ("rdr_post", "get_post"),
}

# Where the thread of a query of several reads is, in the order of its life.
PLACES: dict[str, str] = {
    "before": "on a CPU before the first read call",
    "reader": "on a CPU in the file reader, around its read calls",
    "call": "on a CPU in read calls",
    "throttle": "asleep while an IO limit of its control group held its request back",
    "queue": "asleep until its request was handed to the driver",
    "device": "then until the device had done it",
    "wake": "then until the thread was woken",
    "runq": "run-queue wait: woken or preempted, and without a CPU",
    "sleep": "asleep without a request of its own: another thread's read or one of before, a lock",
    "between": "on a CPU between two reads",
    "after": "on a CPU after the last read call",
}

# Share of others' reads above which diskstats' mean is not of these queries.
_OTHERS = 0.01
# As a share: what the books of two sources may differ by.
REST = 0.02
# The class whose queries have stages.
FOLLOWED = "one_read"

# The kind of queries that are read calls.
READ_CALLS = "read"
# Calls of a kind, for people; of others they are called after the kind.
_KINDS = {"get": "Gets", "multiget": "MultiGets", "seek": "Seeks", "query": "queries", READ_CALLS: "read calls"}

CLASSES: dict[str, str] = {
    "one_read": "slept for one read of one request: the ladder",
    "no_read": "answered from memtable or block cache",
    "several": "several read calls or requests, or those of page faults, io_uring's workers or an IO limit",
    "no_request": "a read without a request: page cache",
    "foreign": "slept for a request of another thread's, or of before the query",
    "awake": "request done before the thread slept",
    "uring": "asked io_uring or libaio, which is not followed",
    "disorder": "a stage without its end, or out of order",
}


@dataclass(frozen=True)
class LadderDevice:
    """The disk that most followed reads went to, and its reads in the window by /proc/diskstats."""

    major: Count
    minor: Count
    name: str
    followed: Count
    reads: Count
    read_ms: Count

    @property
    def await_ns(self) -> float | None:
        """ns of one read from its start to its end, everybody's reads; whole milliseconds divided by reads."""
        return self.read_ms * 1e6 / self.reads if self.reads else None


@dataclass(frozen=True)
class Rung:
    """Durations of one stage, or of one class of queries, in ns; own_ns: of them within the probes' own programs."""

    name: str
    count: Count = 0
    sum_ns: Count = 0
    least_ns: Count = 0
    most_ns: Count = 0
    buckets: list[tuple[Count, Count, Count]] = field(default_factory=list)
    own_ns: Count = 0

    @property
    def histogram(self) -> Histogram:
        return Histogram(self.count, self.sum_ns, self.least_ns, self.most_ns, self.buckets)

    @property
    def mean_ns(self) -> float:
        """0 where nothing was counted."""
        return self.sum_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class QueryParts:
    """Where threads were in the queries of one class, which need not have read once.

    reads, requests: of them all; not_waited: of the requests, those that no wait of the thread ended with: done while
                     it ran, or before another one of the same wait
    parts:           by PLACES, in order, each of every query; they add up to the class, for a thread is in one place.
                     `throttle` is left out where no request was held back
    """

    reads: Count
    requests: Count
    not_waited: Count
    parts: list[Rung]

    @property
    def queries(self) -> int:
        return self.parts[0].count

    @property
    def mean_ns(self) -> float:
        """Of all parts together, which is the query's."""
        return sum(part.sum_ns for part in self.parts) / self.queries if self.queries else 0.0


@dataclass(frozen=True)
class Ladder(Windowed):
    """`ladder.json`: what one query in `sample` of a process went through, within a window.

    start:     `query` (uprobes on the engine's function) or `syscall` (from the read call on)
    notes:     why it starts at the read call, and the like
    query, reader: the functions watched
    uprobes:   `exits` or `trampolines`: how returns are seen (older runs: `session`, `pair`)
    queries:   begun in the window; followed: of these; threads: that began any
    stages:    of class `one_read`, in order; they add up to it
    classes:   what followed queries turned out to be
    ended_soon_s: after its functions were probed, where the process ended within 2 s of that
    kind:      of its queries: get, multiget, seek ...; `read` where it starts at the read call
    turns:     from when to when it was watched, where in turns
    several, foreign: where threads were in queries of these classes; None where there was none
    reader_calls: of the file reader, by followed queries; None in files of before it was counted
    outside_reads: read calls in `outside`, such as those of an iterator's Next
    without_cpu_ns, run_queue_ns: of followed queries, that their thread had no CPU, and that it could have run then;
               0 in files of before it was counted
    outside:   from a followed query's return to the thread's next query: the client's own loop; own_ns: our work in it
    losses:    what was not counted, by reason
    """

    backend: str
    pid: Count
    start_ns: Count
    end_ns: Count
    sample: Count
    start: str
    notes: list[str]
    query: list[ProbedFunction]
    reader: list[ProbedFunction]
    uprobes: str | None
    trap: Trap | None
    queries: Count
    followed: Count
    threads: Count
    stages: list[Rung]
    classes: list[Rung]
    outside: Rung
    device: LadderDevice | None
    losses: dict[str, Count]
    process_ended: bool
    kind: str = "get"
    several: QueryParts | None = None
    foreign: QueryParts | None = None
    reader_calls: Count | None = None
    ended_soon_s: Amount | None = None
    outside_reads: Count = 0
    without_cpu_ns: Count = 0
    run_queue_ns: Count = 0
    turns: list[Turn] = field(default_factory=list)
    schema: int = 1

    @property
    def with_parts(self) -> list[tuple[Rung, QueryParts]]:
        """The classes whose queries have parts instead of stages."""
        both = (("several", self.several), ("foreign", self.foreign))
        return [(self.of_class(name), parts) for name, parts in both if parts is not None]

    @property
    def total(self) -> Rung:
        """Whole queries of the class that has stages."""
        return self.of_class(FOLLOWED)

    def of_class(self, name: str) -> Rung:
        return next((rung for rung in self.classes if rung.name == name), Rung(name))

    def stage(self, name: str) -> Rung:
        return next((rung for rung in self.stages if rung.name == name), Rung(name))

    @property
    def finished(self) -> int:
        """Followed queries that ended within the window."""
        return sum(rung.count for rung in self.classes)

    @property
    def incomplete(self) -> int:
        """Followed queries that the window's edge cut off, and abandoned ones."""
        return self.followed - self.finished

    @property
    def sum_of_parts_ns(self) -> float:
        """Mean of all stages together; of the same queries as `total`, so it equals its mean."""
        return sum(rung.sum_ns for rung in self.stages) / self.total.count if self.total.count else 0.0

    @property
    def query_ns(self) -> float:
        """Mean of all followed queries, whatever they turned out to be."""
        return sum(rung.sum_ns for rung in self.classes) / self.finished if self.finished else 0.0

    @property
    def cycle_ns(self) -> float:
        """From query to query of a thread, as traced: the query and the client's loop; 0 where that was not seen."""
        return self.query_ns + self.outside.mean_ns if self.outside.count else 0.0

    @property
    def probe_ns(self) -> float:
        """The probes' own part of a followed query, of class `one_read` where there is one, else of `several`:
        their programs' time, and the traps, estimated.

        Traps of the reader's entry and return lie within the query whole, those of its own entry and return by half.
        """
        if self.total.count:
            programs, reads = sum(rung.own_ns for rung in self.stages) / self.total.count, 1.0
        elif self.several is not None:
            programs = self.of_class("several").own_ns / self.several.queries
            reads = self.several.reads / self.several.queries
        else:
            return 0.0
        return programs + self._traps_ns(reads)

    def _traps_ns(self, reads: float) -> float:
        """Of a followed query that calls the file reader so often."""
        if self.trap is None or self.start != "query":
            return 0.0
        # Stepping comes after the point in time is taken, so all of it lies within.
        stepping = max(self.trap.stepped_ns - self.trap.entry_ns, 0.0)
        traps = self.trap.entry_ns + self.trap.return_ns
        of_query = traps / 2 + stepping * any(watched.stepped for watched in self.query)
        of_reader = traps + stepping * any(watched.stepped for watched in self.reader) if self.reader else 0.0
        return of_query + reads * of_reader

    @property
    def any_probe_ns(self) -> float:
        """The probes' own part of a followed query of any class."""
        if self.reader_calls is None or not self.finished:
            return self.probe_ns
        programs = sum(rung.own_ns for rung in self.classes) / self.finished
        return programs + self._traps_ns(self.reader_calls / self.finished)

    def rest_ns(self, by_engine_ns: float) -> float:
        """What of a query by the client's clock is neither the query nor the client's loop, without what following adds
        to a query that is followed, for the others do not have it. On a busy CPU that takes longer, like all else."""
        ran = sum(rung.sum_ns for rung in self.classes) - self.without_cpu_ns
        waits = 1 + self.run_queue_ns / ran if ran > 0 else 1.0
        return by_engine_ns - self.cycle_ns + waits * self.any_probe_ns * (1 - 1 / self.sample)

    @property
    def error_ns(self) -> float:
        """Standard error of `query_ns`, by the middles of the buckets."""
        squares = sum(n * ((low + high) / 2) ** 2 for rung in self.classes for low, high, n in rung.buckets)
        variance = squares / self.finished - self.query_ns**2 if self.finished else 0.0
        return math.sqrt(max(variance, 0.0) / self.finished) if self.finished else 0.0

    @property
    def seen_us(self) -> float:
        """us per query as a client of each thread sees it: threads x window / queries. 0 where no query was seen."""
        return self.threads * self.seconds * 1e6 / self.queries if self.queries else 0.0

    @property
    def others_reads(self) -> int:
        """Reads of the device in the window that are not of these queries; 0 where they are too few to matter.

        Of the queries that are not followed as many read as of those that are.
        """
        if self.device is None or not self.followed:
            return 0
        of_several = self.several.requests if self.several is not None else 0
        others = round(self.device.reads - (self.device.followed + of_several) * self.queries / self.followed)
        return others if others > _OTHERS * self.device.reads else 0

    @property
    def others_share(self) -> float | None:
        """Of the device's time (diskstats), the part that others' reads took, if these took what the ladder says: both
        are rounded and of not quite the same reads, so that near 0 it says nothing. None where it is not known."""
        if self.device is None or not self.device.read_ms or not self.total.count:
            return None
        rungs, reads = list(self.stages), self.total.count
        if self.several is not None:
            rungs, reads = [*rungs, *self.several.parts], reads + self.several.requests
        inside = sum(rung.sum_ns for rung in rungs if rung.name in ("queue", "device")) / reads
        return 1 - inside * (self.device.reads - self.others_reads) / (self.device.read_ms * 1e6)

    @property
    def stepped(self) -> list[ProbedFunction]:
        """Functions whose entry is dear to trap."""
        return [watched for watched in (*self.query, *self.reader) if watched.stepped]

    def device_gap(self) -> list[Rung]:
        """The stages outside of the block layer, the largest first: a query's time that io.lat does not have."""
        outside = [rung for rung in self.stages if STAGES[rung.name].where != "device"]
        return sorted(outside, key=lambda rung: -rung.sum_ns)


def queries_of(kind: str) -> str:
    """Calls of this kind, in the plural: `MultiGets`."""
    return _KINDS.get(kind, f"{kind}s")


read_ladder = json_reader(Ladder)
