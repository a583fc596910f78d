"""The slowest queries: their budget beside that of median ones, and the longest ten one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

from ground.results.interval import Interval
from ground.results.ladder import queries_of
from ground.results.tail import (
    KINDS,
    LEAST_SAMPLES,
    BesideRow,
    CpuRow,
    MixRow,
    Tail,
    TailRow,
    WorstQuery,
)
from ground.text.titles import title_of
from ground.text.tsv import Row
from viz.table import ABOUT, PERCENT, TITLE, WORDS, Block, Column, Form, Records, Section, Table, fixed, tsv_only

_R = TypeVar("_R")
_US = fixed(2)
# Durations of a timeline that are shorter are left out: a wait's parts are printed where they matter.
_SHORT_NS = 1000
# Rows of a smaller share are not named in the sentence, and no more than so many are.
_LEAST_SHARE = 0.1
_NAMED = 2
_PHRASES = {
    "on-CPU": "on the CPU",
    "run queue": "run-queue wait",
    "IO limit": "held back by an IO limit",
    "block queue": "in the block queue",
    "device": "the device",
    "wake-up": "between the end of a request and the wake-up",
    "device, for another thread": "the device, for another thread's request",
    "IO, unknown": "waiting for IO of unknown origin",
    "page fault": "page faults",
    "lock": "waiting for a lock",
    "condition": "waiting for a condition",
    "sleep": "asleep",
}


def first_sentence(tail: Tail) -> str:
    """What the slow queries take more than the median ones, and the largest parts of that. It names no cause."""
    who = slow_words(tail)
    if tail.gap is None:
        return f"{who} take {shown_us(tail.tail.mean_us)}, the median {shown_us(tail.median.mean_us)}"
    largest = sorted(
        (row for row in tail.rows if row.gap is not None and row.gap.leaves_zero and (row.share or 0) >= _LEAST_SHARE),
        key=lambda row: -(row.share or 0),
    )
    parts = [f"{_with_interval(row.gap)} of it {_phrase(row)}" for row in largest[:_NAMED] if row.gap is not None]
    told = ", ".join(parts) if parts else "no single part of it is significant"
    return f"{who} take {shown_us(tail.gap.estimate)} more than the median: {told}"


def slow_words(tail: Tail) -> str:
    """The slow group: `the slowest 1 %`, or `queries of 500 us and more (0.8 %)`."""
    share = percent_of(1 - tail.threshold.quantile)
    return f"queries of {shown_us(tail.threshold.ns / 1e3)} and more ({share})" if tail.threshold.asked else (
        f"the slowest {share}"
    )  # fmt: skip


def group_words(tail: Tail) -> tuple[str, str]:
    """What each group is: its durations, and how many records it rests on."""
    threshold, slow, median = tail.threshold, tail.tail, tail.median
    interval = ""
    if threshold.low_ns != threshold.high_ns:
        interval = f" (95 % interval {_range(threshold.low_ns, threshold.high_ns)})"
    rank = "" if threshold.asked else f"p{100 * threshold.quantile:.4g}, "
    return (
        f"{rank}{shown_us(threshold.ns / 1e3)} and more{interval}: n {slow.records:,}, "
        f"{percent_of(tail.wall_share)} of the threads' time",
        f"p40 to p60, {_range(median.low_ns, median.high_ns)}: n {median.records:,}",
    )


def waker_words(row: TailRow) -> str:
    """Who ended the waits; "" where that is not told."""
    return f"{percent_of(row.waker[1])} of these waits ended by thread {row.waker[0]}" if row.waker is not None else ""


def samples_words(tail: Tail) -> str:
    slow, median = tail.cpu_samples
    words = f"{slow:,} in slow queries, {median:,} in median ones"
    return words + ("; disturbed: durations include what the samples took" if tail.cpu_disturbed else "")


def cpu_absent(tail: Tail) -> str:
    """Why the time on the CPU is not told by category."""
    few = min(tail.cpu_samples) < LEAST_SAMPLES
    why = f"{LEAST_SAMPLES} are needed; take a longer window" if few else "slow and median queries are not apart"
    return f"the time on the CPU is not split by category: {samples_words(tail)}, {why}"


def percent_of(share: float) -> str:
    """Three digits at most: 1 %, 0.83 %, 100 %."""
    return f"{100 * share:.3g} %"


def shown_us(us: float) -> str:
    """Two to three digits with a unit: 4.31 ms, 812 us, 1.2 s."""
    value, unit = _scaled(us)
    return f"{us / value:.3g} {unit}"


def _scaled(us: float) -> tuple[float, str]:
    return (1e6, "s") if abs(us) >= 999_500 else (1e3, "ms") if abs(us) >= 999.5 else (1.0, "us")


def _with_interval(gap: Interval) -> str:
    value, unit = _scaled(gap.estimate)
    digits = max(0, 2 - len(f"{abs(gap.estimate / value):.0f}"))
    figure, low, high = (f"{us / value:.{digits}f}" for us in (gap.estimate, gap.low, gap.high))
    return f"{figure} {unit} [{low}, {high}]"


def _range(low_ns: int, high_ns: int) -> str:
    """Of one unit: 181 to 204 us."""
    value, unit = _scaled(high_ns / 1e3)
    return f"{low_ns / 1e3 / value:.3g} to {high_ns / 1e3 / value:.3g} {unit}"


def _phrase(row: TailRow) -> str:
    words = _PHRASES.get(row.kind, row.kind)
    return words if row.name == row.kind else f"{words} ({row.name.removeprefix(f'{row.kind} ')})"


def tail_section(tail: Tail) -> Section:
    """The sentence, what limits it, and the tables."""
    followed = "every query" if tail.sample == 1 else f"one query in {tail.sample}"
    slow, median = group_words(tail)
    groups = [{"group": name, **dataclasses.asdict(of)} for name, of in (("slow", tail.tail), ("median", tail.median))]
    section: list[Block] = [
        f"Slow {queries_of(tail.kind)} (process {tail.pid}, {tail.seconds:.1f} s, {followed} followed, "
        f"{tail.counted:,} ended)",
        first_sentence(tail),
        *(f"  {note}" for note in tail.notes),
        f"slow    {slow}",
        f"median  {median}",
        Records("tail_threshold", [dataclasses.asdict(tail.threshold)]),
        Records("tail_groups", groups),
        _budget(tail),
    ]
    if not tail.cpu and (tail.gap is not None or any(tail.cpu_samples)):
        section.append(cpu_absent(tail))
    return [*section, _mix(tail), _cpu(tail), _beside(tail), *_bias(tail)]


def _gap(of: Callable[[_R], Interval | None], unit: str = "") -> list[Column[_R]]:
    """The difference and its interval."""

    def end(name: str) -> Callable[[_R], float | None]:
        return lambda row: None if (gap := of(row)) is None else getattr(gap, name)

    def both(row: _R) -> str | None:
        gap = of(row)
        return None if gap is None else f"{gap.low:+,.2f} to {gap.high:+,.2f}"

    return [
        Column(f"difference{unit}", "difference", fixed(2, "+"), end("estimate")),
        tsv_only(f"difference_low{unit}", end("low")),
        tsv_only(f"difference_high{unit}", end("high")),
        Column("", "95 % interval", fixed(2), both),
    ]


def _budget(tail: Tail) -> Table[TailRow]:
    columns = [
        Column[TailRow]("row", "us a query", TITLE, lambda row: row.name),
        tsv_only("kind"),
        Column("slow_us", "slow", _US, lambda row: row.tail_us),
        Column("median_us", "median", _US, lambda row: row.median_us),
        *_gap(lambda row: row.gap, "_us"),
        Column("share_percent", "share, %", PERCENT, lambda row: None if row.share is None else 100 * row.share),
        tsv_only("waker", lambda row: None if row.waker is None else row.waker[0]),
        tsv_only("waker_share", lambda row: None if row.waker is None else row.waker[1]),
        Column("", "what it is", ABOUT, lambda row: "; ".join(filter(None, [KINDS.get(row.kind), waker_words(row)]))),
    ]
    whole = TailRow("all", "all", tail.tail.mean_us, tail.median.mean_us, tail.gap, None if tail.gap is None else 1.0)
    legend = (
        f"n {tail.tail.records:,} slow and {tail.median.records:,} median records. Rows add up to the mean of their "
        "group; intervals are of blocks of 250 ms. A part that is larger in slow queries is no cause by itself."
    )
    title = "Where the time of slow and of median queries goes"
    return Table("tail_rows", title, columns, tail.rows, [whole], legend)


def _mix(tail: Tail) -> Table[MixRow]:
    told_by, alike = tail.mixed_by
    share = Form(percent_of)
    columns = [
        tsv_only("reads"),
        Column[MixRow]("", told_by, WORDS, lambda row: row.name),
        Column("tail_share", "of the slow", share, lambda row: row.tail_share),
        Column("median_share", "of the median", share, lambda row: row.median_share),
        Column("tail_us", "us, slow", _US, lambda row: row.tail_us),
        Column("median_us", "us, median", _US, lambda row: row.median_us),
        tsv_only("reason"),
    ]
    legend = ""
    if tail.mix_us is not None and tail.within_us is not None:
        legend = (
            f"Of the difference {tail.mix_us:,.2f} us are another mix of queries, {tail.within_us:,.2f} us are within "
            f"{alike}."
        )
    return Table("tail_mix", f"Queries by {told_by}", columns, tail.mix, legend=legend)


def _cpu(tail: Tail) -> Table[CpuRow]:
    columns = [
        Column[CpuRow]("category", "us a query", WORDS, lambda row: row.category),
        Column("slow_us", "slow", _US, lambda row: row.tail_us),
        Column("median_us", "median", _US, lambda row: row.median_us),
        *_gap(lambda row: row.gap, "_us"),
    ]
    legend = f"The time on the CPU, which is exact, by the shares of samples within the queries: {samples_words(tail)}."
    return Table("tail_cpu", "On what slow and median queries use the CPU", columns, tail.cpu, legend=legend)


def _beside(tail: Tail) -> Table[BesideRow]:
    columns = [
        Column[BesideRow]("at_the_time", "at the time", WORDS, lambda row: row.name),
        Column("unit", "unit", WORDS, lambda row: row.unit),
        Column("slow", "slow", _US, lambda row: row.tail),
        Column("median", "median", _US, lambda row: row.median),
        *_gap(lambda row: row.gap),
    ]
    legend = "requests: when a query's first one was handed to the device; a larger figure is no cause"
    return Table("tail_beside", "What else was under way", columns, tail.beside, legend=legend)


def _bias(tail: Tail) -> Iterator[str]:
    slow, median = tail.own_us
    yield f"our own programs: at least {slow:.1f} us of a slow query, {median:.1f} us of a median one, on the CPU"
    yield f"mean of all queries: {tail.mean_us:,.2f} us as counted, {tail.weighted_us:,.2f} us by the records kept"
    yield "a client that waits for each query sends none while one is slow: those are not in any figure"


def worst_section(tail: Tail) -> Section:
    """The longest queries, each with its parts and what it did from its begin on."""
    return [_worst_text(tail), *(Records(name, rows) for name, rows in _worst_records(tail))]


def _worst_records(tail: Tail) -> Iterator[tuple[str, list[Row]]]:
    yield "worst", [
        {"begin_ns": query.begin_ns, "query_ns": query.ns, "tid": query.tid, "reads": query.reads,
         **{f"{kind.replace(', ', ' ').replace(' ', '_')}_ns": ns for kind, ns in query.parts.items()}}
        for query in tail.worst
    ]  # fmt: skip
    yield "worst_waits", [
        {"begin_ns": query.begin_ns, "left_ns": wait.left, "woken_ns": wait.woken, "runs_ns": wait.runs,
         "part": wait.part, "where": wait.where, "waker": wait.waker}
        for query in tail.worst
        for wait in query.waits
    ]  # fmt: skip
    yield "worst_requests", [
        {"begin_ns": query.begin_ns, "begun_ns": one.begun, "issued_ns": one.issued, "completed_ns": one.completed,
         "bytes": one.bytes, "device": one.device}
        for query in tail.worst
        for one in query.requests
    ]  # fmt: skip


def _worst_text(tail: Tail) -> str:
    """The longest queries, each with its parts and what it did from its begin on."""
    if not tail.worst:
        return "no query was recorded"
    lines = [f"The {len(tail.worst)} longest queries (us from each one's begin)"]
    for number, query in enumerate(tail.worst, 1):
        since = (query.begin_ns - tail.start_ns) / 1e9
        reads = f"{query.reads} read call{'s' * (query.reads != 1)}"
        lines += [
            "",
            f"{number}. {shown_us(query.ns / 1e3)}, thread {query.tid}, {since:.3f} s into the window, {reads}",
            "   "
            + ", ".join(f"{title_of(kind)} {query.parts[kind] / 1e3:,.2f}" for kind in KINDS if kind in query.parts),
            *_timeline(query),
        ]
    return "\n".join(lines)


def _part(kind: str, ns: int) -> str:
    return f"{title_of(kind)} {ns / 1e3:,.2f}"


def _timeline(query: WorstQuery) -> list[str]:
    """What happened, in the order of its beginnings."""
    events: list[tuple[int, int, str]] = []
    for wait in query.waits:
        where = f" in {wait.where}" if wait.where else ""
        waker = f", woken by thread {wait.waker}" if wait.waker else ""
        if wait.woken > wait.left:
            events.append((wait.left, wait.woken, f"{wait.part}{where}{waker}"))
        if wait.runs - wait.woken >= _SHORT_NS or wait.part == "run queue":
            events.append((wait.woken, wait.runs, "run-queue wait"))
    for one in query.requests:
        end = one.completed or one.issued or one.begun
        unseen = "" if one.completed else ", its end was not seen"
        events.append((one.begun, end, f"request of {one.bytes:,} bytes to {one.device}{unseen}"))
    rows = [[f"{begin / 1e3:.1f}", f"{end / 1e3:.1f}", words] for begin, end, words in sorted(events)]
    width = max((len(cell) for row in rows for cell in row[:2]), default=0)
    return [f"   {begin:>{width}} {end:>{width}}  {words}" for begin, end, words in rows]
