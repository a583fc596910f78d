"""What is shown of slow queries beside the rows: what ran at the time, their CPU by category, and single queries.

How long a query was on a CPU is exact; its split by category is sampled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from folding.wait_places import WaitPlace, place_of
from ground.results.jobs import RunJobs
from ground.results.query_records import BLOCKED, ON_CPU, PARTS, QueryRecord, Span
from ground.results.tail import (
    KIND_OF_PART,
    KINDS,
    LEAST_SAMPLES,
    BesideRow,
    CpuRow,
    Strip,
    WorstQuery,
    WorstRequest,
    WorstWait,
)
from ioflame.analysis.tail_groups import MEDIAN, SLOW, Bounds, GroupSums, Sums, Used

_REQUESTS = {
    "reads_beside": ("other reads that the device had", "requests"),
    "writes_beside": ("writes that the device had", "requests"),
    "others_beside": ("flushes and discards that the device had", "requests"),
    "kib_beside": ("KiB of all these", "KiB"),
}
_QUERIES, _ASKING = "queries", "asking"
# Dots beyond these are not told apart in a picture.
_MOST_DOTS = 1500
_BINS = 100
# Plain words: a name in brackets means code of an object without names, which comparisons treat as the same.
_RUNS, _RUN_QUEUE = "on-CPU", "run queue"
_TOLD = ("lock", "condition")
RUNNING = "on_cpu"
_ALL = "samples"


class Intervals:
    """Stretches of time, (begin, end) in ns, which may overlap."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(stretches)
        joined: list[tuple[int, int]] = []
        for begin, end in ordered:
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((begin, end))
        self._begins = [begin for begin, _ in joined]
        self._ends = [end for _, end in joined]

    def meets(self, begin: int, end: int) -> bool:
        place = bisect_right(self._ends, begin)
        return place < len(self._begins) and self._begins[place] < end


def job_stretches(recorded: RunJobs) -> dict[str, list[tuple[int, int]]]:
    """When jobs ran, by their kind: CLOCK_MONOTONIC, ns. One that had not ended ran as long as the log goes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for job in recorded.found.jobs:
        ended = job.end if job.end is not None else recorded.found.until
        stretch = (recorded.monotonic_ns(job.begin), recorded.monotonic_ns(ended))
        found.setdefault(job.kind, []).append(stretch)
    return found


def beside_rows(
    counted: Iterable[tuple[QueryRecord, float]], jobs: Mapping[str, Sequence[tuple[int, int]]], bounds: Bounds
) -> list[BesideRow]:
    """jobs: by what they are called, when they ran (CLOCK_MONOTONIC, ns); the others: of queries with requests of their
    own, when the first was handed to the device"""
    running = {name: Intervals(stretches) for name, stretches in jobs.items()}
    sums = GroupSums(bounds)
    for record, weight in counted:
        values = {_QUERIES: weight}
        first = record.first_request
        if first is not None:
            values |= {_ASKING: weight, **{name: weight * getattr(first, name) for name in _REQUESTS}}
        values |= {
            name: weight for name, stretches in running.items() if stretches.meets(record.begin_ns, record.end_ns)
        }
        sums.add(record.ns, record.end_ns, values)
    figures = {name: _mean(name, _ASKING) for name in _REQUESTS}
    figures |= {name: _mean(name, _QUERIES, 100.0) for name in running}
    words = _REQUESTS | {name: (f"while a {name} ran", "% of queries") for name in running}
    return [
        BesideRow(*words[name], one.slow, one.median, one.gap)
        for name, one in sums.compare(figures).items()
        if one.slow or one.median
    ]


def _mean(name: str, among: str, scale: float = 1.0) -> Callable[[Sums], float]:
    def mean(of: Sums) -> float:
        count = of(among)
        return scale * of(name) / count if count else 0.0

    return mean


def strip_of(
    slow: Sequence[QueryRecord],
    counted: Iterable[tuple[QueryRecord, float]],
    jobs: Mapping[str, Sequence[tuple[int, int]]],
    window: tuple[int, int],
) -> Strip:
    """slow: the shortest first; counted: records with their weights; jobs: when they ran; window: its ends, ns of
    CLOCK_MONOTONIC like all moments here."""
    start, end = window
    length = max(end - start, 1)
    sums = [[0.0, 0.0, 0.0] for _ in range(_BINS)]
    for record, weight in counted:
        first = record.first_request
        if first is not None and start <= first.woken < end:
            into = sums[(first.woken - start) * _BINS // length]
            for place, value in enumerate((1.0, first.reads_beside, first.writes_beside)):
                into[place] += weight * value
    wide = length / _BINS / 1e9
    return Strip(
        length / 1e9,
        [((record.begin_ns - start) / 1e9, record.ns / 1e3) for record in slow[-_MOST_DOTS:]],
        len(slow),
        [(place * wide, reads / asked, writes / asked) for place, (asked, reads, writes) in enumerate(sums) if asked],
        wide,
        [
            (name, max(begin - start, 0) / 1e9, min(to - start, length) / 1e9)
            for name, stretches in jobs.items()
            for begin, to in stretches
            if begin < end and to > start
        ],
    )


def folded_time(
    group: Sequence[Used],
    sampled: Sequence[QueryRecord],
    undisturbed: Undisturbed,
    places: Mapping[int, WaitPlace],
    states: Sequence[str],
    least: int,
    most: int | None,
) -> str:
    """Folded text of the queries of `least` ns and more, up to `most` (None: all): a line is `root;...;leaf;what n`,
    n in ns a query of the group, so that two groups can be compared whatever their sizes.

    sampled: records in which samples fell; undisturbed: how long those had been without. The time on the CPU is spread
    over their stacks, and has none where there are none. Time in the run queue has the stack that the thread was
    blocked in; a preempted thread has none.
    """
    sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
    whole = on_cpu = 0.0
    for one in group:
        if not _within(one.record.ns, least, most):
            continue
        whole += one.weight
        on_cpu += one.weight * one.record.parts[ON_CPU]
        for wait in one.record.waits:
            state = states[wait.state]
            frames = place_of(places, wait.place, state).frames if wait.place else ()
            blocked = _RUN_QUEUE if PARTS[wait.part] == "run_queue" else f"waits: {state}"
            for what, ns in ((blocked, wait.woken - wait.left), (_RUN_QUEUE, wait.runs - wait.woken)):
                stack = (*frames, what)
                sums[stack] += one.weight * ns
    ran = _ran([record for record in sampled if _within(undisturbed.ns(record), least, most)], places) or {
        (_RUNS,): 1.0
    }
    samples = sum(ran.values())
    for stack, weight in ran.items():
        sums[stack] += on_cpu * weight / samples
    lines = {";".join(frames): round(ns / whole) for frames, ns in sorted(sums.items()) if whole}
    return "".join(f"{line} {ns}\n" for line, ns in lines.items() if ns)


def _within(ns: int, least: int, most: int | None) -> bool:
    return ns >= least and (most is None or ns <= most)


def _ran(records: Sequence[QueryRecord], places: Mapping[int, WaitPlace]) -> Mapping[tuple[str, ...], float]:
    """Samples by stack with what they are behind it; the kept samples of a query represent all of its samples."""
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for record in records:
        kept = list(record.samples)
        for sample in kept:
            stack = (*place_of(places, sample.place, RUNNING).frames, _RUNS)
            found[stack] += record.sampled / len(kept)
    return found


def worst_queries(
    records: Sequence[QueryRecord], places: Mapping[int, WaitPlace], states: Sequence[str]
) -> list[WorstQuery]:
    return [
        WorstQuery(
            record.begin_ns,
            record.ns,
            record.tid,
            record.reads,
            _parts(record, states),
            [_wait(wait, record.begin_ns, places, states) for wait in record.waits],
            [_request(span, record.begin_ns) for span in record.spans if span.is_request],
        )
        for record in records
    ]


def _parts(record: QueryRecord, states: Sequence[str]) -> dict[str, int]:
    """ns by the kinds of rows that it has."""
    found = {KIND_OF_PART[name]: ns for name, ns in zip(PARTS, record.parts, strict=True) if ns and name != "blocked"}
    left = record.parts[BLOCKED]
    for wait in record.waits:
        if wait.part == BLOCKED:
            kind = _kind(states[wait.state])
            found[kind] = found.get(kind, 0) + wait.woken - wait.left
            left -= wait.woken - wait.left
    if left:
        found["sleep"] = found.get("sleep", 0) + left
    return {kind: found[kind] for kind in KINDS if kind in found}


def _kind(state: str) -> str:
    return state if state in _TOLD else "sleep"


def _wait(wait: Span, begin: int, places: Mapping[int, WaitPlace], states: Sequence[str]) -> WorstWait:
    state = states[wait.state]
    kind = _kind(state) if wait.part == BLOCKED else KIND_OF_PART[PARTS[wait.part]]
    where = place_of(places, wait.place, state).where if wait.place else ""
    waker = wait.who if kind in _TOLD else 0
    return WorstWait(wait.left - begin, wait.woken - begin, wait.runs - begin, kind, where, waker)


def _request(span: Span, begin: int) -> WorstRequest:
    begun, issued, completed = (at - begin if at else 0 for at in (span.left, span.woken, span.runs))
    return WorstRequest(begun, issued, completed, span.bytes, f"{span.device >> 20}:{span.device & 0xFFFFF}")


@dataclass(frozen=True)
class Undisturbed:
    """How long sampled queries had been without their samples, so that they fall into the groups that they belong to:
    an interrupt takes as long as a whole query that finds its block in a cache.

    each_ns: that a sample takes. slow: ns, from which on a query is long beside that
    """

    each_ns: float
    slow: int

    @classmethod
    def of(cls, counted: Iterable[tuple[QueryRecord, float]], sampled: Iterable[QueryRecord], slow: int) -> Undisturbed:
        """Samples fall into queries in proportion to their time on the CPU: the median duration weighted by that, and
        the median of what was sampled, differ by what a sample takes. Where most of these have several samples a query
        is long beside one, and nothing is taken off."""
        shorter = [(record.ns, weight * record.parts[ON_CPU]) for record, weight in counted if record.ns < slow]
        short = [record for record in sampled if record.sampled and record.ns < slow]
        once = [(record.ns, 1.0) for record in short if record.sampled == 1]
        if not shorter or 2 * len(once) <= len(short):
            return cls(0.0, slow)
        return cls(max(0.0, _median(once) - _median(shorter)), slow)

    def ns(self, record: QueryRecord) -> int:
        return record.ns if record.ns >= self.slow else round(record.ns - self.each_ns * record.sampled)


@dataclass(frozen=True)
class CpuSplit:
    """rows: the largest first, none where samples are too few; samples: of both groups

    undisturbed: as it was taken off. disturbed: with it a group had too few samples, so nothing was taken off
    """

    rows: list[CpuRow]
    samples: tuple[int, int]
    undisturbed: Undisturbed
    disturbed: bool


def _median(weighted: Iterable[tuple[int, float]]) -> float:
    ordered = sorted(weighted)
    half, reached = sum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    return 0.0


def cpu_rows(
    counted: Sequence[tuple[QueryRecord, float]],
    sampled: Sequence[QueryRecord],
    places: Mapping[int, WaitPlace],
    bounds: Bounds,
) -> CpuSplit:
    """The time on the CPU by category.

    counted: records with their weights; sampled: all in which a sample fell, whatever else they were kept for
    """
    undisturbed = Undisturbed.of(counted, sampled, bounds.slow)
    found = _split(counted, sampled, undisturbed, places, bounds)
    if found.rows or not undisturbed.each_ns:
        return found
    # On a busy host what a sample takes is not what durations differ by.
    as_seen = _split(counted, sampled, Undisturbed(0.0, bounds.slow), places, bounds)
    return replace(as_seen, disturbed=True) if as_seen.rows else found


def _split(
    counted: Sequence[tuple[QueryRecord, float]],
    sampled: Sequence[QueryRecord],
    undisturbed: Undisturbed,
    places: Mapping[int, WaitPlace],
    bounds: Bounds,
) -> CpuSplit:
    sums = GroupSums(bounds)
    for record, weight in counted:
        sums.add(record.ns, record.end_ns, {"queries": weight, "on_cpu": weight * record.parts[ON_CPU]})
    owners = set()
    for record in sampled:
        kept = list(record.samples)
        for sample in kept:
            owner = place_of(places, sample.place, RUNNING).owner
            owners.add(owner)
            # At most 8 samples of a query are kept: they represent the others.
            weight = record.sampled / len(kept)
            sums.add(undisturbed.ns(record), record.end_ns, {_ALL: weight, f"of {owner}": weight})
    samples = (round(sums.total(SLOW, _ALL)), round(sums.total(MEDIAN, _ALL)))
    if min(samples) < LEAST_SAMPLES:
        return CpuSplit([], samples, undisturbed, disturbed=False)
    found = sums.compare({owner: _us_of(owner) for owner in sorted(owners)})
    rows = [CpuRow(owner, one.slow, one.median, one.gap) for owner, one in found.items() if one.slow or one.median]
    return CpuSplit(sorted(rows, key=lambda row: -row.tail_us), samples, undisturbed, disturbed=False)


def _us_of(owner: str) -> Callable[[Sums], float]:
    def us(of: Sums) -> float:
        queries, samples = of("queries"), of(_ALL)
        return of("on_cpu") / queries * of(f"of {owner}") / samples / 1e3 if queries and samples else 0.0

    return us
