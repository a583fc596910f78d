"""The slowest queries as text: their budget beside that of median ones, and the longest ten one by one."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.ladder import queries_of
from ground.results.tail import KINDS, Tail, WorstQuery
from viz.tail_words import (
    BESIDE_WORDS,
    cpu_absent,
    first_sentence,
    gap_cells,
    group_words,
    percent_of,
    samples_words,
    shown_us,
    waker_words,
)
from viz.terminal.columns import aligned

# Durations of a timeline that are shorter are left out: a wait's parts are printed where they matter.
_SHORT_NS = 1000


def tail_text(tail: Tail) -> str:
    """The sentence, what limits it, and the tables."""
    followed = "every query" if tail.sample == 1 else f"one query in {tail.sample}"
    slow, median = group_words(tail)
    lines = [
        f"Slow {queries_of(tail.kind)} (process {tail.pid}, {tail.seconds:.1f} s, {followed} followed, "
        f"{tail.counted:,} ended)",
        f"{first_sentence(tail)}",
        *(f"  {note}" for note in tail.notes),
        "",
        f"slow    {slow}",
        f"median  {median}",
        "",
        _budget(tail),
        "",
        *_row_notes(tail),
        *_cpu(tail),
        *_beside(tail),
        *_mix(tail),
        *_bias(tail),
    ]
    return "\n".join(lines)


def _budget(tail: Tail) -> str:
    rows = [["us a query", "slow", "median", "difference", "95 % interval", "share"]]
    for row in tail.rows:
        rows.append(
            [
                row.name, _us(row.tail_us), _us(row.median_us), *gap_cells(row.gap),
                "-" if row.share is None else f"{100 * row.share:.1f} %",
            ]
        )  # fmt: skip
    whole = tail.gap
    rows.append(
        [
            "all", _us(tail.tail.mean_us), _us(tail.median.mean_us), *gap_cells(whole),
            "-" if whole is None else "100.0 %",
        ]
    )  # fmt: skip
    return aligned(rows)


def _row_notes(tail: Tail) -> Iterator[str]:
    told = [f"  {row.name}: {words}" for row in tail.rows if (words := waker_words(row))]
    if told:
        yield from (*told, "")


def _cpu(tail: Tail) -> Iterator[str]:
    if not tail.cpu:
        if tail.gap is not None or any(tail.cpu_samples):
            yield from (f"  {cpu_absent(tail)}", "")
        return
    yield f"On what they use the CPU (samples: {samples_words(tail)})"
    rows = [["us a query", "slow", "median", "difference", "95 % interval"]]
    rows += [[row.category, _us(row.tail_us), _us(row.median_us), *gap_cells(row.gap)] for row in tail.cpu]
    yield from (*aligned(rows).split("\n"), "")


def _beside(tail: Tail) -> Iterator[str]:
    if not tail.beside:
        return
    yield f"What else was under way ({BESIDE_WORDS})"
    rows = [["at the time", "slow", "median", "difference", "95 % interval"]]
    rows += [[f"{row.name}, {row.unit}", _us(row.tail), _us(row.median), *gap_cells(row.gap)] for row in tail.beside]
    yield from (*aligned(rows).split("\n"), "")


def _mix(tail: Tail) -> Iterator[str]:
    told_by, alike = tail.mixed_by
    rows = [[told_by, "of the slow", "of the median", "us, slow", "us, median"]]
    for row in tail.mix:
        rows.append(
            [
                row.name, percent_of(row.tail_share), percent_of(row.median_share),
                "-" if row.tail_us is None else _us(row.tail_us), "-" if row.median_us is None else _us(row.median_us),
            ]
        )  # fmt: skip
    yield from aligned(rows).split("\n")
    if tail.mix_us is not None and tail.within_us is not None:
        yield (
            f"  of the difference {_us(tail.mix_us)} us are another mix of queries, {_us(tail.within_us)} us are "
            f"within {alike}"
        )
    yield ""


def _bias(tail: Tail) -> Iterator[str]:
    slow, median = tail.own_us
    yield f"our own programs: at least {slow:.1f} us of a slow query, {median:.1f} us of a median one, on the CPU"
    yield f"mean of all queries: {_us(tail.mean_us)} us as counted, {_us(tail.weighted_us)} us by the records kept"
    yield "slow and median queries differ at the same time as these parts do: that names no cause"
    yield "a client that waits for each query sends none while one is slow: those are not in any figure"


def worst_text(tail: Tail) -> str:
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
            "   " + ", ".join(f"{kind} {_us(query.parts[kind] / 1e3)}" for kind in KINDS if kind in query.parts),
            *_timeline(query),
        ]
    return "\n".join(lines)


def _timeline(query: WorstQuery) -> list[str]:
    """What happened, in the order of its beginnings."""
    events: list[tuple[int, int, str]] = []
    for wait in query.waits:
        where = f" in {wait.where}" if wait.where else ""
        waker = f", woken by thread {wait.waker}" if wait.waker else ""
        if wait.woken > wait.left:
            events.append((wait.left, wait.woken, f"{wait.part}{where}{waker}"))
        if wait.runs - wait.woken >= _SHORT_NS or wait.part == "run queue":
            events.append((wait.woken, wait.runs, "run queue"))
    for one in query.requests:
        end = one.completed or one.issued or one.begun
        unseen = "" if one.completed else ", its end was not seen"
        events.append((one.begun, end, f"request of {one.bytes:,} bytes to {one.device}{unseen}"))
    rows = [[f"{begin / 1e3:.1f}", f"{end / 1e3:.1f}", words] for begin, end, words in sorted(events)]
    width = max((len(cell) for row in rows for cell in row[:2]), default=0)
    return [f"   {begin:>{width}} {end:>{width}}  {words}" for begin, end, words in rows]


def _us(us: float) -> str:
    return f"{us:,.2f}"
