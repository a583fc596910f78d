"""IO latency of the database's device: its observer, by the best backend of this host, and checks of its figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebpf.backends import BACKENDS, choose_backend
from ebpf.diskstats import counted_twice, not_counted, requests_between
from ebpf.iolat_bcc import bcc_io_latency
from ebpf.iolat_bpftrace import bpftrace_io_latency
from ebpf.losses import UNSEEN, losses_words, unseen_verdict
from ebpf.observer import CoreObserver, option_words
from ebpf.request_cost import cost_checks
from ground.results.checks import Check, Verdict
from ground.results.io_latency import IoLatency
from ground.system.observer import Observer
from ground.system.process import Children

# Whether anything was counted of the processes that were named.
EVENTS_CHECK = "iolat events"

# Fewer requests than this, and diskstats' whole milliseconds say nothing about their mean.
_FEWEST_FOR_MEAN = 1000
# How far its mean may be from ours: the block layer reads the clock once for all requests of a plug.
_MEAN_TOLERANCE = 0.05
# What a backend loses by its nature, as a share of all requests: stated with its figures, an error above that.
_LOSES = {"bpftrace": 0.10}


@dataclass(frozen=True)
class IoLatencyRequest:
    """pids: the processes to separate from all others; device: its (major, minor), a disk or a partition; turns: take
    turns, where the backend can."""

    pids: Sequence[int]
    device: tuple[int, int]
    children: bool = False
    backend: str = "auto"
    turns: bool = False


def io_latency_observer(request: IoLatencyRequest, children: Children, out: Path) -> Observer:
    """The observer that leaves an `IoLatency` in `out`. HostError where no backend works here, with the reasons."""
    return _BACKENDS[choose_backend(request.backend, "iolat", BACKENDS)](request, children, out)


def _co_re(request: IoLatencyRequest, children: Children, out: Path) -> Observer:
    device = "{}:{}".format(*request.device)
    arguments = option_words(device=device, pid=list(request.pids), children=request.children)
    what = "IO latency, CO-RE programs on the block layer's events"
    return CoreObserver("iolat", what, children, arguments, out, turns=request.turns)


def _bpftrace(request: IoLatencyRequest, children: Children, out: Path) -> Observer:
    return bpftrace_io_latency(children, request.pids, request.children, request.device, out)


def _bcc(request: IoLatencyRequest, children: Children, out: Path) -> Observer:
    return bcc_io_latency(children, request.pids, request.device, out)


_BACKENDS: Mapping[str, Callable[[IoLatencyRequest, Children, Path], Observer]] = {
    "co-re": _co_re,
    "bpftrace": _bpftrace,
    "bcc": _bcc,
}


def io_latency_checks(latency: IoLatency) -> list[Check]:
    """What there is to say about the figures: nothing counted, something lost, more or less than diskstats saw."""
    totals = [row.total for row in latency.rows]
    return [
        *_counted(latency),
        _lost(latency),
        *_covered(latency),
        *_same_mean(latency),
        *_happened(latency),
        *cost_checks("iolat", latency.costs, sum(one.count for one in totals), sum(one.sum_ns for one in totals)),
    ]


def _counted(latency: IoLatency) -> Iterator[Check]:
    if not latency.rows:
        yield Check(
            EVENTS_CHECK,
            Verdict.FAILED,
            f"no request of {latency.device.name} ended in {latency.seconds:.1f} s",
            "an empty result: nothing read or wrote the device, or the probes saw none of it",
            "a device that the workload uses, and a window in which it does",
        )
    elif latency.backend == "bcc":
        yield Check(EVENTS_CHECK, Verdict.NOTE, "others' requests too", "biolatency does not separate processes")
    elif not any(row.owner == "process" for row in latency.rows):
        pids = ", ".join(map(str, latency.pids))
        yield Check(
            EVENTS_CHECK,
            Verdict.FAILED,
            f"no request of process {pids} among {sum(row.total.count for row in latency.rows):,}",
            "its reads came from the page cache, or its children sent them, or it uses another device",
            "--children, or --device",
        )


def _lost(latency: IoLatency) -> Check:
    total = sum(row.total.count for row in latency.rows)
    if not latency.losses:
        return Check("iolat losses", Verdict.NOTE, f"not declared by {latency.backend}", "see the coverage")
    words, lost = losses_words(latency.losses, _LOSSES), sum(latency.losses.values())
    if not words:
        return Check("iolat losses", Verdict.OK, f"none in {total:,} requests")
    # Requests that took longer than the settling before the window began unseen: a few are no fault.
    if {name for name, n in latency.losses.items() if n} <= UNSEEN:
        verdict = unseen_verdict(lost, total)
        if verdict is not None:
            return Check("iolat losses", verdict, f"{words}, of {total:,}", "they are not in the figures")
    verdict = Verdict.WARN if lost <= _LOSES.get(latency.backend, 0) * total else Verdict.FAILED
    return Check("iolat losses", verdict, f"{words}, of {total:,}", "the figures are of the rest alone")


_LOSSES = {
    "lost_kind": "requests of a kind that did not fit into the map of kinds:",
    "overflow": "longer than 137 s:",
    "collided": "requests lost because another of the same block, or its end, could not be distinguished:",
}


def _covered(latency: IoLatency) -> Iterator[Check]:
    disk = latency.diskstats
    if disk is None or not any(c.requests for c in (disk.outer.read, disk.outer.write)):
        if latency.rows:
            yield not_counted("iolat coverage", latency.device.name)
        return
    # bcc cannot be made to wait: it attaches and detaches within the window, so its edges are not the counters'.
    if latency.backend == "bcc":
        read, most = latency.count("read"), disk.outer.read.requests
        enough = read >= 0.5 * most
        words = f"{read:,} reads of at most {most:,} in diskstats"
        yield Check("iolat coverage", Verdict.NOTE if enough else Verdict.FAILED, words, "its edges are not exact")
        return
    # An event that another CPU is in the middle of may be on either side of an edge.
    slack = 2 * (os.cpu_count() or 1)
    unseen = sum(latency.losses.get(name, 0) for name in UNSEEN) + latency.facts.get("unfinished", 0)
    flushing = sum(kind.count for kind in latency.kinds if kind.flushes_and_writes)
    twice = counted_twice(latency.device, flushing)
    groups = (
        ("reads", latency.count("read"), disk.inner.read, disk.outer.read),
        ("writes", latency.count("write") + twice, disk.inner.write, disk.outer.write),
        ("discards", latency.count("discard"), disk.inner.discard, disk.outer.discard),
    )
    seen, short, wrong = [], False, False
    for name, counted, inner, outer in groups:
        if counted or outer.requests:
            seen.append(f"{counted:,} {name} of {requests_between(inner, outer)}")
            share = _LOSES.get(latency.backend, 0)
            short |= not inner.requests - slack - unseen <= counted
            wrong |= not inner.requests * (1 - share) - slack - unseen <= counted <= outer.requests + slack
    words = ", ".join(seen) + " in diskstats"
    if twice:
        words += f" (of the writes, {twice:,} that flush first are counted twice there, and so here)"
    if short and not wrong:
        yield Check("iolat coverage", Verdict.WARN, words, f"{latency.backend} loses some; EBPF=co-re does not")
    elif wrong:
        yield Check("iolat coverage", Verdict.FAILED, words, "what was traced is not what the device did")
    else:
        yield Check("iolat coverage", Verdict.OK, words)


def _same_mean(latency: IoLatency) -> Iterator[Check]:
    reads = [row.total for row in latency.rows if row.operation == "read"]
    count = sum(histogram.count for histogram in reads)
    disk = latency.diskstats.outer.read.mean_ns if latency.diskstats else None
    if count < _FEWEST_FOR_MEAN or not disk:
        return
    mean = sum(histogram.sum_ns for histogram in reads) / count
    words = f"{mean / 1e3:.2f} us a read, diskstats {disk / 1e3:.2f} us ({mean / disk - 1:+.1%})"
    if abs(mean / disk - 1) <= _MEAN_TOLERANCE:
        yield Check("iolat mean", Verdict.OK, words)
    else:
        yield Check("iolat mean", Verdict.WARN, words, "one of the two clocks does not cover what the other does")


def _happened(latency: IoLatency) -> Iterator[Check]:
    total = sum(row.total.count for row in latency.rows)
    requeued = latency.facts.get("requeued", 0)
    if requeued > 0.01 * total:
        yield Check(
            "iolat requeued",
            Verdict.NOTE,
            f"{requeued:,} times in {total:,} requests",
            "the driver took no more, so they waited: that time is in the queue, not at the device",
        )
    held = latency.facts.get("held_back", 0)
    if held:
        yield Check(
            "iolat IO limit",
            Verdict.NOTE,
            f"{held:,} requests of the process's control group were held back by its IO limit",
            "they begin here when their turn came: how long they waited for it is in no row",
            "ioflame ebpf ladder, or tail: the wait is a part of the query",
        )
    ended = latency.facts.get("processes_ended", 0)
    if ended:
        yield Check("iolat processes", Verdict.NOTE, f"{ended} ended within the window", "they were counted until then")
