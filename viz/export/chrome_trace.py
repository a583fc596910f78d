"""Single queries as Chrome trace JSON, for Perfetto (ui.perfetto.dev) and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ground.results.tail import WorstQuery

# Slices of a track nest or follow each other: one that begins within another and ends after it is an error to viewers,
# which nest, move or drop it. So the requests of a thread have tracks of their own, as many as were under way at once.
# No thread has a number as large as this (PID_MAX_LIMIT).
_REQUESTS = 1 << 22
_INSTANT_US = 0.001


def chrome_trace(queries: Sequence[WorstQuery], pid: int, origin_ns: int) -> str:
    """Each thread has a track with its queries and, within them, what they waited for; tracks of its requests; and a
    waker of locks and conditions has one, with an arrow to what it woke.

    origin_ns: CLOCK_MONOTONIC, where time begins. Format: Trace Event Format, times in us.
    """
    threads = {query.tid for query in queries}
    wakers = {wait.waker for query in queries for wait in query.waits if wait.waker}
    events = [_named("process_name", pid, pid, f"process {pid}")]
    events += [_named("thread_name", pid, tid, f"thread {tid}") for tid in sorted(threads | wakers)]
    for number, query in enumerate(queries, 1):
        events += _of_query(number, query, pid, query.begin_ns - origin_ns)
    for tid in sorted(threads):
        events += _of_requests([query for query in queries if query.tid == tid], pid, tid, origin_ns)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False, separators=(",", ":"))


def _of_query(number: int, query: WorstQuery, pid: int, begin: int) -> Iterator[dict[str, Any]]:
    parts = {f"{kind}, us": ns / 1e3 for kind, ns in query.parts.items()}
    yield _slice(f"query {number}", "query", pid, query.tid, begin, begin + query.ns, {"reads": query.reads, **parts})
    for place, wait in enumerate(query.waits):
        left, woken, runs = (begin + at for at in (wait.left, wait.woken, wait.runs))
        arguments = {"where": wait.where} if wait.where else {}
        if woken > left:
            yield _slice(wait.part, "wait", pid, query.tid, left, woken, arguments)
        if runs > woken:
            yield _slice("run-queue wait", "wait", pid, query.tid, woken, runs, {})
        if wait.waker:
            flow = number * 1000 + place
            yield _slice("wakes", "wake", pid, wait.waker, woken, woken, {"thread": query.tid})
            common = {"name": "wake-up", "cat": "wake", "id": flow, "pid": pid, "ts": woken / 1e3}
            yield {**common, "ph": "s", "tid": wait.waker}
            yield {**common, "ph": "f", "bp": "e", "tid": query.tid}


def _of_requests(queries: Sequence[WorstQuery], pid: int, tid: int, origin_ns: int) -> Iterator[dict[str, Any]]:
    """Of one thread, on its tracks and the names of these."""
    spans = [
        (query.begin_ns + one.begun, query.begin_ns + (one.completed or one.issued or one.begun), one)
        for query in queries
        for one in query.requests
    ]
    ends = list[int]()  # of the last one on each track
    for begin, end, request in sorted(spans, key=lambda span: span[:2]):
        track = next((place for place, last in enumerate(ends) if last <= begin), len(ends))
        number = _REQUESTS * (track + 1) + tid
        if track == len(ends):
            ends.append(0)
            yield _named("thread_name", pid, number, f"requests of thread {tid}" + f", {track + 1}" * (track > 0))
        ends[track] = max(end, begin + 1)  # what has no length is drawn with a ns
        asked: dict[str, Any] = {
            "bytes": request.bytes,
            "device": request.device,
            "issued after, us": _since(request.begun, request.issued),
        }
        yield _slice("request", "device", pid, number, begin - origin_ns, end - origin_ns, asked)


def _since(begun: int, issued: int) -> float | None:
    return (issued - begun) / 1e3 if issued else None


def _slice(
    name: str, category: str, pid: int, tid: int, begin: int, end: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": begin / 1e3,
        "dur": max((end - begin) / 1e3, _INSTANT_US), "args": arguments,
    }  # fmt: skip


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
