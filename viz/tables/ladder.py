"""The latency ladder: stages with their share of the query, what the queries were, and the books balanced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ground.results.ladder import CLASSES, PLACES, REST, STAGES, Ladder, QueryParts, Rung, queries_of
from ground.text.titles import title_of
from ground.text.tsv import Row
from viz.table import (
    ABOUT,
    BAR,
    PERCENT,
    TITLE,
    US,
    WORDS,
    Block,
    Column,
    Records,
    Section,
    Table,
    histogram_columns,
    tsv_only,
)

# How many parts of the gap are named after its largest.
_NEXT = 4


class _Book(NamedTuple):
    """A sum, and what it is beside others."""

    name: str
    ns: float
    about: str


_BOOKS = [
    Column[_Book]("", "us", WORDS, lambda book: book.name),
    Column("", "mean", US, lambda book: book.ns),
    Column("", "what it is", ABOUT, lambda book: book.about),
]


def ladder_section(ladder: Ladder, rx_lat_us: float | None = None) -> Section:
    """rx_lat_us: us per query by the engine's own count in the same window; without it, by the queries seen here"""
    followed = "all" if ladder.sample == 1 else f"one in {ladder.sample}"
    what = queries_of(ladder.kind)
    section: list[Block] = [
        f"Latency ladder of {what} (us; process {ladder.pid}, {ladder.seconds:.1f} s, {followed} followed)",
        *_starts(ladder),
        *ladder.notes,
    ]
    if not ladder.total.count:
        section.append(
            f"no query slept for one read, so there are no stages: {ladder.followed:,} of {ladder.queries:,} {what} "
            "were followed"
        )
    section += [stages_table(ladder), _classes(ladder)]
    for whole, parts in ladder.with_parts:
        section += [_parts(whole, parts), Records(f"{whole.name}_reads", [_reads(parts)])]
    return [*section, Table("", "Sums", _BOOKS, list(_books(ladder, rx_lat_us)))]


def _starts(ladder: Ladder) -> list[str]:
    if ladder.start == "syscall":
        return ["starts at the read call (pread64, preadv, preadv2)"]
    names = [watched.short for watched in (*ladder.query, *ladder.reader)]
    files = sorted({watched.file for watched in ladder.query})
    return [f"starts at {', then '.join(dict.fromkeys(names))}", f"in {', '.join(files)}"]


def stages_table(ladder: Ladder) -> Table[Rung]:
    abouts = {name: f"{step.start} -> {step.end}: {step.about}" for name, step in STAGES.items()}
    total = [ladder.total] if ladder.total.count else []
    columns = _columns("stage, us", ladder.total, abouts)
    legend = f"n {ladder.total.count:,}. Averages add up to the total; percentiles do not."
    rows = ladder.stages
    return Table("stages", "Stages of a query", columns, rows, [replace(rung, name="total") for rung in total], legend,
                 where=lambda _: bool(total))  # fmt: skip


def _columns(head: str, whole: Rung, abouts: Mapping[str, str]) -> list[Column[Rung]]:
    """whole: what the shares are of"""

    def share(rung: Rung) -> float:
        return rung.sum_ns / whole.sum_ns if whole.sum_ns else 0.0

    return [
        Column[Rung]("name", head, TITLE, lambda rung: rung.name),
        *histogram_columns(lambda rung: rung.histogram, count=None),
        tsv_only("own_ns"),
        Column("", "share, %", PERCENT, lambda rung: 100 * share(rung)),
        Column("", "", BAR, share, on="screen"),
        Column("about", "what it is", ABOUT, lambda rung: abouts.get(rung.name)),
    ]


def _parts(whole: Rung, parts: QueryParts) -> Table[Rung]:
    n = parts.queries
    legend = (
        f"{whole.name}: n {n:,}; {parts.reads / n:.2f} read calls and {parts.requests / n:.2f} requests each, of which "
        f"{parts.not_waited / n:.2f} were not waited for. A thread is in one place at any time, so averages add up."
    )
    columns, title = _columns("part, us", whole, PLACES), f"Parts of a query ({whole.name})"
    return Table(f"{whole.name}_parts", title, columns, parts.parts, [replace(whole, name="total")], legend)


def _reads(parts: QueryParts) -> Row:
    return {"queries": parts.queries, "read_calls": parts.reads, "requests": parts.requests,
            "requests_not_waited_for": parts.not_waited}  # fmt: skip


def _classes(ladder: Ladder) -> Table[Rung]:
    columns = [
        Column[Rung]("name", "followed", WORDS, lambda rung: rung.name),
        *histogram_columns(lambda rung: rung.histogram, count="queries"),
        tsv_only("own_ns"),
        Column("about", "query type", ABOUT, lambda rung: CLASSES.get(rung.name)),
    ]
    legend = f"Of {ladder.queries:,} queries of {ladder.threads} thread{'s' * (ladder.threads != 1)}"
    if ladder.incomplete:
        legend += f"; cut off by the window's edge: {ladder.incomplete:,} followed"
    title = "What followed queries turned out to be, us"
    return Table("classes", title, columns, ladder.classes, (), f"{legend}.", where=lambda rung: rung.count > 0)


def _books(ladder: Ladder, rx_lat_us: float | None) -> Iterator[_Book]:
    total = ladder.total
    if total.count:
        difference = ladder.sum_of_parts_ns - total.mean_ns
        yield _Book("sum of the parts", ladder.sum_of_parts_ns, f"{difference / 1e3:+.3f} us beside the total")
        if ladder.backend == "co-re":
            yield _Book("of it, the probes", ladder.probe_ns, "at least: programs measured, traps estimated")
    for whole, parts in ladder.with_parts:
        difference = parts.mean_ns - whole.mean_ns
        words = f"{difference / 1e3:+.3f} us beside the total; programs {whole.own_ns / whole.count / 1e3:.2f} us of it"
        yield _Book(f"sum of {whole.name}", parts.mean_ns, words)
    if ladder.start == "query" and ladder.outside.count:
        yield _Book("query, all classes", ladder.query_ns, "reads and cache hits together")
        words = "from a query's return to the next query"
        if ladder.outside_reads:
            words += f", with {ladder.outside_reads / ladder.outside.count:.2f} read calls"
        yield _Book("client's own loop", ladder.outside.mean_ns, words)
        by_engine = 1e3 * (rx_lat_us if rx_lat_us is not None else ladder.seen_us)
        whose = "the engine's count" if rx_lat_us is not None else "the queries seen"
        yield _Book(title_of("rx.lat"), by_engine, f"threads x 1e6 / qps, by {whose}")
        rest = ladder.rest_ns(by_engine)
        share = 100 * rest / by_engine if by_engine else 0.0
        yield _Book("rest", rest, f"{share:+.1f} % of the latency, less the probes, estimated")
    yield from _device_books(ladder)


def _device_books(ladder: Ladder) -> Iterator[_Book]:
    device, total = ladder.device, ladder.total
    if device is None or device.await_ns is None or not total.count:
        return
    inside = inside_ns(ladder)
    yield _Book("queue + device", inside, "what the block layer and the device took")
    words = f"diskstats, {device.reads:,} reads; it ends after the wake-up of the reader: a few us more"
    others, share = ladder.others_reads, ladder.others_share
    if others and share is not None:
        told = f"they took {share * device.read_ms * 1e3 / others:.0f} us each, if these took what is above"
        if share < REST:
            told = "what they took is too little of the device's time to be seen"
        words += f" ({others:,} of them others'; {told})"
    yield _Book(f"disk latency of {device.name}", device.await_ns, words)
    gap = total.mean_ns - inside
    largest, *rest = ladder.device_gap()
    part = f"{largest.mean_ns / 1e3:.2f} us ({100 * largest.mean_ns / gap:.0f} %): {STAGES[largest.name].about}"
    then = ", ".join(f"{title_of(rung.name)} {rung.mean_ns / 1e3:.2f} us" for rung in rest[:_NEXT])
    words = f"not in iostat nor the device's own figures; most of it is {title_of(largest.name)}, {part}; then {then}"
    yield _Book("query - queue - dev", gap, words)


def inside_ns(ladder: Ladder) -> float:
    """What block layer and device took of the mean query."""
    return sum(ladder.stage(name).mean_ns for name in ("queue", "device"))
