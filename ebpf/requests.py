"""Request attribution: what traces the requests of a device, and checks of what they were given to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebpf.diskstats import counted_twice, not_counted, requests_between
from ebpf.losses import UNSEEN, losses_words, unseen_verdict
from ebpf.observer import CoreObserver, option_words
from ebpf.request_cost import cost_checks
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.request_attribution import RequestAttribution
from ground.system.process import Children

# Of the requests: what is no more than a note.
_FEW = 0.001
_SECTOR = 512
# The largest request of most drives.
_LARGE = 1 << 20


@dataclass(frozen=True)
class RequestsOptions:
    """pids: the processes to separate from all others; device: its (major, minor), a disk or a partition.

    reasons: take the stack of one read in so many of the first process, of its other requests of one in an eighth of
             that; 0: of none
    map_entries: bytes of the ring and entries of the map of names, to see them overflow
    """

    pids: Sequence[int]
    device: tuple[int, int]
    children: bool = False
    reasons: int = 0
    map_entries: int | None = None


def requests_observer(request: RequestsOptions, children: Children, out: Path) -> CoreObserver:
    """The observer that leaves `Requests` in `out`, and their rows and stacks beside it."""
    arguments = option_words(
        device="{}:{}".format(*request.device),
        rows=out.with_name(Files.REQUEST_ROWS),
        pid=list(request.pids),
        children=request.children,
        map_entries=request.map_entries,
        reasons=request.reasons,
        recording=out.with_name(Files.REQUEST_STACKS) if request.reasons else None,
    )
    return CoreObserver("requests", "requests with their files, CO-RE programs", children, arguments, out)


def attribution_checks(attribution: RequestAttribution) -> list[Check]:
    """What there is to say about the figures: whether all requests of the device are in them, and what has no name."""
    taken_ns = sum(total.queue_ns + total.device_ns for total in attribution.totals.values())
    cost = cost_checks("requests", attribution.costs, attribution.requests, taken_ns)
    return [
        *_counted(attribution),
        _lost(attribution),
        *_covered(attribution),
        *_known(attribution),
        *_listed(attribution),
        *cost,
    ]


def _counted(attribution: RequestAttribution) -> Iterator[Check]:
    if not attribution.requests:
        yield Check(
            "requests requests",
            Verdict.NOTE,
            f"none ended on {attribution.device.name} in {attribution.seconds:.1f} s",
            "nothing read or wrote the device, or another one is used",
            "--device, or a window in which the device is used",
        )


def _lost(attribution: RequestAttribution) -> Check:
    words = losses_words(attribution.losses, _LOSSES)
    if not words:
        return Check("requests losses", Verdict.OK, f"none in {attribution.requests:,} requests")
    lost = {name for name, n in attribution.losses.items() if n}
    # A stack less is a smaller sample.
    harmless = lost <= UNSEEN | {"lost_stack", "no_stack", "lost_name"}
    verdict = unseen_verdict(sum(attribution.losses.values()), attribution.requests) if harmless else None
    means = "the figures are of the rest alone"
    return Check("requests losses", verdict or Verdict.FAILED, f"{words}, of {attribution.requests:,}", means)


_LOSSES = {
    "lost_record": "requests that did not fit into the ring:",
    "lost_name": "files that did not fit into the map of names:",
    "lost_direct": "direct calls whose file could not be kept:",
    "lost_stack": "stacks that did not fit into their map:",
    "no_stack": "stacks that the kernel could not walk:",
    "not_kept": "requests beyond those that are kept one by one:",
}


def _covered(attribution: RequestAttribution) -> Iterator[Check]:
    disk = attribution.diskstats
    if disk is None or not any(c.requests for c in (disk.outer.read, disk.outer.write, disk.outer.discard)):
        if attribution.requests:
            yield not_counted("requests coverage", attribution.device.name)
        return
    # An event that another CPU is in the middle of may be on either side of an edge.
    slack = 2 * (os.cpu_count() or 1)
    unseen = sum(attribution.losses.get(name, 0) for name in UNSEEN) + attribution.facts.get("unfinished", 0)
    twice = counted_twice(attribution.device, attribution.facts.get("flushing_writes", 0))
    groups = (
        ("read", disk.inner.read, disk.outer.read),
        ("write", disk.inner.write, disk.outer.write),
        ("discard", disk.inner.discard, disk.outer.discard),
        ("flush", disk.inner.flush, disk.outer.flush),
    )
    words, wrong = [], False
    for name, inner, outer in groups:
        total = attribution.totals[name]
        if not (total.requests or outer.requests):
            continue
        # The table's rows are what is checked, where all are in it, and not a count beside them.
        not_kept = attribution.losses.get("not_kept", 0)
        rows = total.requests if not_kept else attribution.count(attribution.of(name))
        seen_twice = twice if name == "write" else 0
        again = f" and {seen_twice:,} again that flush first" if seen_twice else ""
        words.append(f"{rows:,} {_named(name, rows)}{again} of {requests_between(inner, outer)}")
        wrong |= not inner.requests - slack - unseen <= rows + seen_twice <= outer.requests + slack
        if name in ("read", "write"):
            size, sent = outer.sectors * _SECTOR, attribution.of(name)
            seen = total.bytes if not_kept else sum(row.bytes for row in sent)
            words[-1] += f" ({seen:,} of {size:,} B)"
            # What is at the edges, or was not seen, may be of any size: at most of the largest that there are.
            largest = max((row.bytes / row.requests for row in sent), default=0.0)
            wrong |= abs(seen - size) > (slack + unseen) * max(largest, _LARGE) + _FEW * size
    text = ", ".join(words) + " in diskstats"
    if wrong:
        yield Check("requests coverage", Verdict.FAILED, text, "what was traced is not what the device did")
    else:
        yield Check("requests coverage", Verdict.OK, text)


def _named(operation: str, count: int) -> str:
    """`read` or `reads`, `flush` or `flushes`."""
    return operation if count == 1 else f"{operation}{'es' if operation == 'flush' else 's'}"


def _known(attribution: RequestAttribution) -> Iterator[Check]:
    """How many requests have no owner, and why."""
    unknown = attribution.count(row for row in attribution.rows if row.owner == "unknown")
    if unknown:
        direct = attribution.facts.get("direct_calls_seen", 1)
        why = "their pages are no file's: the device itself is read or written, or a layer below a file system"
        if not direct:
            why = "this kernel does not show the files of direct IO"
        many = unknown > 0.01 * attribution.requests
        yield Check(
            "requests unknown",
            Verdict.WARN if many else Verdict.NOTE,
            f"{unknown:,} of {attribution.requests:,} requests",
            why,
        )
    if attribution.several_files:
        yield Check(
            "requests merged",
            Verdict.NOTE,
            f"{attribution.several_files:,} of {attribution.requests:,} requests hold pages of several files",
            "each of these is counted under the file of its first page",
        )
    ended = attribution.facts.get("processes_ended", 0)
    if ended:
        yield Check(
            "requests processes", Verdict.NOTE, f"{ended} ended within the window", "they are named in rows until then"
        )


def _listed(attribution: RequestAttribution) -> Iterator[Check]:
    """What the engine could not say of its files."""
    if attribution.failed:
        yield Check(
            "requests files",
            Verdict.WARN,
            attribution.failed,
            "levels and parts of the files are not known: files by name alone",
        )
    for note in attribution.notes:
        yield Check("requests files", Verdict.NOTE, note)
    if attribution.unlisted > _FEW * attribution.requests:
        yield Check(
            "requests unlisted",
            Verdict.NOTE,
            f"{attribution.unlisted:,} requests of files in {attribution.directory} that are not its engine's",
            "neither a listing nor their names say what they are",
        )
    if attribution.moved:
        yield Check(
            "requests moved",
            Verdict.NOTE,
            f"{attribution.moved:,} requests of files that were moved to another level meanwhile",
            "each is counted under the level that its file had then, as far as that is known",
        )
    if attribution.unnamed > _FEW * attribution.requests:
        yield Check(
            "requests unnamed",
            Verdict.NOTE,
            f"{attribution.unnamed:,} requests of files without a name",
            "deleted, and forgotten",
        )
