"""`tail.json`: the slowest queries of a window beside its median ones, row by row of where their time went."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.interval import Interval
from ground.results.ranges import Amount, Count, Share, Signed, Windowed
from ground.system.atomic_files import json_reader

# The percentile that slow queries begin at, unless another bound is given.
P99 = 0.99
# Queries with more read calls share one row.
MOST_READS = 3
# In each group, for shares of the time on the CPU.
LEAST_SAMPLES = 100

# What rows are, and what each kind means, in the order of tables.
KINDS: dict[str, str] = {
    "on-CPU": "what is left: running, our own programs included",
    "run queue": "woken or preempted, and without a CPU",
    "IO limit": "asleep while an IO limit of its control group held its request back",
    "block queue": "asleep for its own request, until that was handed to the device",
    "device": "then until the device completed it",
    "wake-up": "then until the thread was woken",
    "device, for another thread": "asleep until a request completed that another thread, or itself before, had made",
    "IO, unknown": "asleep for IO, for no request that was seen",
    "page fault": "asleep for a page of its memory",
    "lock": "asleep for a lock that another thread has",
    "condition": "asleep for a condition variable",
    "sleep": "another sleep: a timer, a socket, the kernel's own locks",
}
# Of the parts of records; `blocked` is split by its waits.
KIND_OF_PART = {
    "on_cpu": "on-CPU",
    "run_queue": "run queue",
    "throttle": "IO limit",
    "block_queue": "block queue",
    "device": "device",
    "wake_up": "wake-up",
    "others_device": "device, for another thread",
    "unknown_io": "IO, unknown",
    "page_fault": "page fault",
}


@dataclass(frozen=True)
class Threshold:
    """From which duration on a query is one of the slow ones.

    ns, low_ns, high_ns: and the 95 % interval of the percentile, by ranks; that of a given one is itself
    quantile: the share of queries that are shorter; asked: it was given, and is no percentile
    """

    ns: Count
    low_ns: Count
    high_ns: Count
    quantile: Share
    asked: bool


@dataclass(frozen=True)
class TailGroup:
    """records: kept of it; queries: how many of those followed they represent; mean_us: of a query of it.

    low_ns, high_ns: the durations that it has
    """

    records: Count
    queries: Amount
    mean_us: Amount
    low_ns: Count
    high_ns: Count


@dataclass(frozen=True)
class TailRow:
    """A part of a query's time, in us a query; the rows of a group add up to its mean.

    name:  a kind alone, or with where the thread waited: `lock in Cache::Lookup`
    kind:  of KINDS
    gap:   the difference, slow less median, with its interval by blocks of 250 ms; None where none is printed
    share: of the difference of the two means; None where none is printed
    waker: the thread that ended most of these waits of slow queries, and its share of them; None where that is not told
    """

    name: str
    kind: str
    tail_us: Amount
    median_us: Amount
    gap: Interval | None = None
    share: Signed | None = None
    waker: tuple[Count, Amount] | None = None


@dataclass(frozen=True)
class MixRow:
    """Queries of so many read calls (MOST_READS: as many and more), or of one reason: their share of each group, and
    their mean in us.

    None where a group has none of them. reason: where the queries are read calls; "" otherwise
    """

    reads: Count
    tail_share: Amount
    median_share: Amount
    tail_us: Amount | None
    median_us: Amount | None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.reason or f"{self.reads}{'+' * (self.reads >= MOST_READS)}"


@dataclass(frozen=True)
class CpuRow:
    """A category's part of the time on the CPU, in us a query: the group's time on the CPU, which is exact, by the
    shares of its samples.

    gap: slow less median, with its interval by blocks of 250 ms; None where these are too few
    """

    category: str
    tail_us: Amount
    median_us: Amount
    gap: Interval | None


@dataclass(frozen=True)
class BesideRow:
    """What else was under way: a mean of each group. That it is larger in slow queries is no cause.

    unit: of the means; gap: slow less median, with its interval by blocks of 250 ms; None for too few blocks
    """

    name: str
    unit: str
    tail: Amount
    median: Amount
    gap: Interval | None


@dataclass(frozen=True)
class Strip:
    """The window as time, in seconds from its begin.

    slow:    when a slow query began, and its us: the longest of them; queries: records of slow ones that there are
    beside:  begin of a stretch of `bin_seconds`, and the mean of other reads and of writes that the device had when it
             was handed a query's first request; stretches without such a request are left out
    jobs:    kind, begin and end
    """

    seconds: Amount
    slow: list[tuple[Amount, Amount]]
    queries: Count
    beside: list[tuple[Amount, Amount, Amount]]
    bin_seconds: Amount
    jobs: list[tuple[str, Amount, Amount]]


@dataclass(frozen=True)
class WorstWait:
    """In ns from the query's begin: left its CPU, woken, ran again. part: a row's kind; where: the frame that waited;
    waker: tid, 0 where that is not told"""

    left: Count
    woken: Count
    runs: Count
    part: str
    where: str
    waker: Count


@dataclass(frozen=True)
class WorstRequest:
    """In ns from the query's begin: begun, issued, completed (0: not seen). device: major:minor"""

    begun: Count
    issued: Count
    completed: Count
    bytes: Count
    device: str


@dataclass(frozen=True)
class WorstQuery:
    """begin_ns: CLOCK_MONOTONIC; parts: ns by row kind, those that it has"""

    begin_ns: Count
    ns: Count
    tid: Count
    reads: Count
    parts: dict[str, Count]
    waits: list[WorstWait]
    requests: list[WorstRequest]


@dataclass(frozen=True)
class Tail(Windowed):
    """`tail.json`.

    queries:    begun in the window; followed: one in `sample` of them; counted: that ended
    mean_us:    of all that were counted; weighted_us: the same by the kept records
    wall_share: of the threads' time within the window, what slow queries are
    gap:        of the two means; None below 50 slow records
    mix_us, within_us: of the difference, what another mix of queries by their reads makes, and what is within; None
                where no difference is printed
    own_us:     of a slow query, and of a median one, in which our programs ran
    lost_slow:  slow queries whose records were lost
    cpu:        the time on the CPU by category; none where samples are too few
    cpu_samples: of slow, and of median queries; cpu_disturbed: by durations that include what
                the samples took
    beside:     what else was under way; strip: the same over the window
    notes:      what limits the figures
    kind:       of the queries: get, multiget, seek ...
    """

    pid: Count
    start_ns: Count
    end_ns: Count
    sample: Count
    queries: Count
    followed: Count
    counted: Count
    threads: Count
    mean_us: Amount
    weighted_us: Amount
    wall_share: Amount
    threshold: Threshold
    tail: TailGroup
    median: TailGroup
    rows: list[TailRow]
    gap: Interval | None
    mix: list[MixRow]
    mix_us: Signed | None
    within_us: Signed | None
    own_us: tuple[Amount, Amount]
    lost_slow: Count
    worst: list[WorstQuery]
    notes: list[str] = field(default_factory=list)
    cpu: list[CpuRow] = field(default_factory=list)
    cpu_samples: tuple[Count, Count] = (0, 0)
    beside: list[BesideRow] = field(default_factory=list)
    strip: Strip | None = None
    kind: str = "get"
    cpu_disturbed: bool = False
    schema: int = 1

    @property
    def mixed_by(self) -> tuple[str, str]:
        """What distinguishes the rows of `mix`, and what is the same within one of them."""
        by_reason = any(row.reason for row in self.mix)
        return ("what for", "read calls for the same") if by_reason else ("read calls", "queries of as many reads")


read_tail = json_reader(Tail)
