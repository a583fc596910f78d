"""Records of a workload's single queries: their observer, and checks of what it recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ebpf.backends import choose_backend
from ebpf.losses import ended_checks, loss_checks, missed_checks
from ebpf.observer import CoreObserver, option_words
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.query_records import Recorded
from ground.system.process import Children

# Of a CPU: above it the traps of queries alone cost enough for a warning.
_DEAR = 0.02
_LOST = ("lost_thread", "lost_request", "lost_slow", "lost_other", "lost_stack", "lost_memory", "unread")
_ODD = ("nested", "abandoned", "requeued", "overtaken", "missed_in", "no_stack", "overflow", "lost_beside")


@dataclass(frozen=True)
class TailRequest:
    """The options of `ioflame-ebpf records`.

    pid: the process; sample: one query in so many is followed; keep: `slow` or `all`
    threshold_us: from which on one is slow; None: its slowest five percent by a second before the window
    linger:   seconds that queries under way at the window's end are waited for; expected: of the window
    force:    follow them even where the traps take more than 5 % of a CPU
    symbols:  the engine's file that names its queries; None: those of the default engine
    kind, query_symbol, return_trampolines: as of a `LadderRequest`
    ring_bytes: of the ring that records go through; None: the program's own
    """

    pid: int
    sample: int = 1
    threshold_us: int | None = None
    keep: str = "slow"
    linger: float = 2.0
    expected: float = 20.0
    force: bool = False
    symbols: Path | None = None
    ring_bytes: int | None = None
    kind: str | None = None
    query_symbol: str | None = None
    return_trampolines: bool = False


def tail_observer(request: TailRequest, children: Children, directory: Path) -> CoreObserver:
    """The observer that leaves `records.json`, `records.bin` and `records.data` in the directory.

    HostError where the CO-RE programs do not run here.
    """
    choose_backend("co-re", "records")
    files = {"records": directory / Files.QUERY_RECORDS, "recording": directory / Files.RECORD_STACKS}
    arguments = option_words(**vars(request), **files)
    followed = "every query" if request.sample == 1 else f"one query in {request.sample}"
    what = f"records of single queries, {followed} followed"
    return CoreObserver("tail", what, children, arguments, directory / Files.RECORDED, program="records")


def record_checks(recorded: Recorded) -> list[Check]:
    """What there is to say about the records."""
    return [*_counted(recorded), *_cost(recorded), *_lost(recorded)]


def _counted(recorded: Recorded) -> Iterator[Check]:
    if not recorded.histogram.count:
        yield Check(
            "tail queries",
            Verdict.FAILED,
            f"no query ended in {recorded.seconds:.1f} s",
            "an empty result: the process was idle, or the probes saw none of it",
            "a window in which it has queries; ioflame doctor",
        )
        return
    for note in recorded.notes:
        yield Check("tail start", Verdict.NOTE, note)
    yield Check(
        "tail queries",
        Verdict.OK,
        f"{recorded.histogram.count:,} followed to their end, {recorded.slow:,} of them slow, {recorded.kept:,} kept",
    )
    if recorded.uneven:
        yield Check(
            "tail sum",
            Verdict.FAILED,
            f"the parts of {recorded.uneven:,} queries are more than the whole",
            "waits that overlap: these figures are wrong",
        )
    else:
        yield Check("tail sum", Verdict.OK, "the parts of every record add up to it")
    if recorded.process_ended:
        yield from ended_checks("tail", recorded.pid, recorded.ended_soon_s)


def _cost(recorded: Recorded) -> Iterator[Check]:
    pilot, trap = recorded.pilot, recorded.trap
    entry = trap.stepped_ns if any(watched.stepped for watched in recorded.query) else trap.entry_ns
    both = (entry + trap.return_ns) / 1e3
    traps = f"{pilot.queries_per_second:,.0f} queries/s x {both:.2f} us: {100 * pilot.trap_share:.1f} % of a CPU"
    if not recorded.query:
        traps = f"none at {pilot.queries_per_second:,.0f} read calls/s"
    own = recorded.own_ns / recorded.histogram.count / 1e3 if recorded.histogram.count else 0.0
    dear = pilot.trap_share > _DEAR
    yield Check(
        "tail cost",
        Verdict.WARN if dear else Verdict.OK,
        f"at least, estimated: traps {traps}; programs, measured: {own:.1f} us a followed query",
        "queries were slower for it" if dear else "",
        "the empty window beside it shows by how much" if dear else "",
    )


def _lost(recorded: Recorded) -> Iterator[Check]:
    lost = {name: recorded.losses.get(name, 0) for name in _LOST}
    odd = {name: recorded.losses.get(name, 0) for name in _ODD} | {"still_open": recorded.still_open}
    verdict = Verdict.FAILED if lost["lost_thread"] or lost["unread"] else Verdict.WARN
    means = "a ring or a map was full: kept records are weighted for the lost ones, which may have differed"
    yield from loss_checks(
        "tail", lost, odd, verdict, means, "a larger --threshold-us, or fewer queries followed: --sample"
    )
    yield from missed_checks("tail", recorded.losses.get("missed", 0), recorded.queries, "queries")
