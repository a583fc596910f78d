"""The latency ladder as text: stages with their share of the query, what the queries were, and the books balanced."""

from __future__ import annotations

from ground.results.ladder import CLASSES, PLACES, REST, STAGES, Ladder, QueryParts, Rung, queries_of
from viz.terminal.columns import bar, microseconds, narrow

_PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_HEADS = ("avg", *(f"p{p:g}" for p in _PERCENTILES), "max", "share")
_BAR = 24
# How many parts of the gap are named after its largest.
_NEXT = 4


def ladder_text(ladder: Ladder, rx_lat_us: float | None = None) -> str:
    """The table and the reconciliation.

    rx_lat_us: us per query by the engine's own count in the same window; without it, by the queries seen here
    """
    followed = "all" if ladder.sample == 1 else f"one in {ladder.sample}"
    what = queries_of(ladder.kind)
    lines = [
        f"Latency ladder of {what} (us; process {ladder.pid}, {ladder.seconds:.1f} s, {followed} followed)",
        *_starts(ladder),
        *ladder.notes,
        "",
        *_stage_table(ladder),
        "",
        *(line for whole, parts in ladder.with_parts for line in _parts_table(whole, parts)),
        *_class_table(ladder),
        "",
        *_books(ladder, rx_lat_us),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _starts(ladder: Ladder) -> list[str]:
    if ladder.start == "syscall":
        return ["starts at the read call (pread64, preadv, preadv2)"]
    names = [watched.short for watched in (*ladder.query, *ladder.reader)]
    files = sorted({watched.file for watched in ladder.query})
    return [f"starts at {', then '.join(dict.fromkeys(names))}", f"in {', '.join(files)}"]


def _stage_table(ladder: Ladder) -> list[str]:
    total = ladder.total
    if not total.count:
        return ["no query slept for one read: there are no stages"]
    rows = [["stage", *_HEADS]]
    bars = [""]
    for rung in ladder.stages:
        share = rung.sum_ns / total.sum_ns if total.sum_ns else 0.0
        rows.append([rung.name, *_cells(rung), f"{100 * share:.1f}%"])
        bars.append(" " + bar(share, _BAR))
    whole = ["total", *_cells(total), "100.0%"]
    lines = [line + bar for line, bar in zip(narrow([*rows, whole], 1), [*bars, ""], strict=True)]
    lines.append("")
    lines += [f"{rung.name:<8}  {STAGES[rung.name].start} -> {STAGES[rung.name].end}" for rung in ladder.stages]
    return lines


def _parts_table(whole: Rung, parts: QueryParts) -> list[str]:
    n = parts.queries
    rows = [["us a query", *_HEADS]]
    bars = [""]
    for part in parts.parts:
        share = part.sum_ns / whole.sum_ns if whole.sum_ns else 0.0
        rows.append([part.name, *_cells(part), f"{100 * share:.1f}%"])
        bars.append(" " + bar(share, _BAR))
    rows.append(["total", *_cells(whole), "100.0%"])
    requests = f"{parts.requests / n:.2f} requests" if parts.requests else "no request of their own"
    waited = f", {parts.not_waited / n:.2f} of them not waited for" if parts.not_waited else ""
    return [
        f"{whole.name}: {n:,} with {parts.reads / n:.2f} read calls, {requests}{waited}",
        "",
        *(line + bar for line, bar in zip(narrow(rows, 1), [*bars, ""], strict=True)),
        "",
        *(f"{part.name:<8}  {PLACES[part.name]}" for part in parts.parts),
        "",
    ]


def _class_table(ladder: Ladder) -> list[str]:
    rows = [["followed", "queries", "avg", "p99"]]
    words = ["query type"]
    for name, about in CLASSES.items():
        rung = ladder.of_class(name)
        if rung.count:
            p99 = rung.histogram.percentile(99) or 0.0
            rows.append([name, f"{rung.count:,}", microseconds(rung.mean_ns), microseconds(p99)])
            words.append(about)
    if ladder.incomplete:
        rows.append(["incomplete", f"{ladder.incomplete:,}", "", ""])
        words.append("cut off by the window's edge")
    rows.append(["of all", f"{ladder.queries:,}", "", ""])
    words.append(f"queries of {ladder.threads} thread{'s' * (ladder.threads != 1)}")
    return [f"{line}  {about}" for line, about in zip(narrow(rows, 1), words, strict=True)]


def _books(ladder: Ladder, rx_lat_us: float | None) -> list[str]:
    total = ladder.total
    lines = []
    if total.count:
        difference = ladder.sum_of_parts_ns - total.mean_ns
        lines.append(_book("sum of the parts", ladder.sum_of_parts_ns, f"{difference / 1e3:+.3f} us beside the total"))
        if ladder.backend == "co-re":
            lines.append(_book("of it, the probes", ladder.probe_ns, "at least: programs measured, traps estimated"))
    for whole, parts in ladder.with_parts:
        difference = parts.mean_ns - whole.mean_ns
        words = f"{difference / 1e3:+.3f} us beside the total; programs {whole.own_ns / whole.count / 1e3:.2f} us of it"
        lines.append(_book(f"sum of {whole.name}", parts.mean_ns, words))
    if ladder.start == "query" and ladder.outside.count:
        lines.append(_book("query, all classes", ladder.query_ns, "reads and cache hits together"))
        words = "from a query's return to the next query"
        if ladder.outside_reads:
            words += f", with {ladder.outside_reads / ladder.outside.count:.2f} read calls"
        lines.append(_book("client's own loop", ladder.outside.mean_ns, words))
        lines += _engine_lines(ladder, rx_lat_us)
    lines += _device_lines(ladder)
    return lines


def _engine_lines(ladder: Ladder, rx_lat_us: float | None) -> list[str]:
    by_engine = rx_lat_us if rx_lat_us is not None else ladder.seen_us
    whose = "the engine's count" if rx_lat_us is not None else "the queries seen"
    rest = ladder.rest_ns(by_engine * 1e3)
    share = 100 * rest / (by_engine * 1e3) if by_engine else 0.0
    return [
        _book("rx.lat", by_engine * 1e3, f"threads x 1e6 / qps, by {whose}"),
        _book("rest", rest, f"{share:+.1f} % of rx.lat, less the probes, estimated"),
    ]


def _device_lines(ladder: Ladder) -> list[str]:
    device, total = ladder.device, ladder.total
    if device is None or device.await_ns is None or not total.count:
        return []
    inside = sum(ladder.stage(name).mean_ns for name in ("queue", "device"))
    others = ladder.others_reads
    lines = [
        _book("queue + device", inside, "what the block layer and the device took"),
        _book(f"io.lat of {device.name}", device.await_ns, f"diskstats, {device.reads:,} reads"),
        "  (it ends once the reader has been woken: a few us more)",
    ]
    share = ladder.others_share
    if others and share is not None:
        told = f"they took {share * device.read_ms * 1e3 / others:.0f} us each, if these took what is above"
        if share < REST:
            told = "what they took is too little of the device's time to be seen"
        lines.append(f"  ({others:,} of them others'; {told})")
    gap = total.mean_ns - inside
    largest, *rest = ladder.device_gap()
    step = STAGES[largest.name]
    part = f"{largest.mean_ns / 1e3:.2f} us ({100 * largest.mean_ns / gap:.0f} %)"
    return [
        *lines,
        _book("query - queue - dev", gap, "not in iostat nor the device's own figures"),
        f"  its largest part is {largest.name}, {part}:",
        f"  {step.about}",
        "  then " + ", ".join(f"{rung.name} {rung.mean_ns / 1e3:.2f}" for rung in rest[:_NEXT]),
    ]


def _book(name: str, ns: float, words: str) -> str:
    return f"{name:<20} {ns / 1e3:>9.2f}  {words}"


def _cells(rung: Rung) -> list[str]:
    values = [rung.histogram.percentile(percent) or 0.0 for percent in _PERCENTILES]
    return [microseconds(value) for value in (rung.mean_ns, *values, rung.most_ns)]
