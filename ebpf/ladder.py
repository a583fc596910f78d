"""The latency ladder of a workload's queries: its observer, and checks of its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ebpf.backends import choose_backend
from ebpf.losses import ended_checks, path_loss_checks
from ebpf.observer import CoreObserver, option_words
from ground.results.checks import Check, Verdict
from ground.results.ladder import CLASSES, FOLLOWED, REST, Ladder
from ground.settings import Setting
from ground.system.observer import Observer
from ground.system.process import Children

# Above this share of followed queries in one of these classes, the stages are of too few to represent all.
_ODD_CLASSES = ("several", "foreign", "awake", "uring", "disorder")
_ODD = 0.05
# A sound window's edge cuts off one query of each thread.
_EDGE = 0.001
_PARTS_NS = 100
_DEAR = 3
# By so much the parts may be larger than the whole, as a share, beside what the mean of n queries is off by.
_LARGER = 0.05


@dataclass(frozen=True)
class LadderRequest:
    """The options of `ioflame-ebpf ladder`.

    pid: the process; sample: one query in so many is followed; start: `auto`, `query` or `syscall`
    symbols: the engine's file that names its queries and where it reads; None: those of the default engine
    kind: of the queries to follow; None: the first of the engine's that is called
    query_symbol: the function that is a query, in place of the engine's; `kind` is then a name for its calls
    no_reader: no probes on the engine's file reader
    return_trampolines: see returns by trampolines on the process's stack, of functions whose code does not say where
                        they are left
    turns:     take turns
    """

    pid: int
    sample: int = 8
    start: str = "auto"
    no_reader: bool = False
    symbols: Path | None = None
    kind: str | None = None
    query_symbol: str | None = None
    return_trampolines: bool = False
    turns: bool = False


def ladder_observer(request: LadderRequest, children: Children, out: Path) -> Observer:
    """The observer that leaves a `Ladder` in `out`. HostError where this host cannot load its programs."""
    choose_backend("co-re", "ladder")
    what = f"latency ladder of one query in {request.sample}"
    arguments = option_words(**{name: value for name, value in vars(request).items() if name != "turns"})
    return CoreObserver("ladder", what, children, arguments, out, turns=request.turns)


def ladder_checks(ladder: Ladder, rx_lat_us: float | None = None) -> list[Check]:
    """What there is to say about the figures.

    rx_lat_us: us per query by the engine's own count in the same window, where that is known
    """
    return [
        *_counted(ladder),
        *_adds_up(ladder),
        *_started(ladder),
        *_asynchronous(ladder),
        *_stepped(ladder),
        *_other_classes(ladder),
        *path_loss_checks("ladder", ladder.losses, ladder.queries, "queries", aside=["async_calls"]),
        *_edges(ladder),
        *_engine(ladder, rx_lat_us),
        *_device(ladder),
    ]


def _counted(ladder: Ladder) -> Iterator[Check]:
    total = ladder.total
    ended = f" (process {ladder.pid} ended in the window)" if ladder.process_ended else ""
    several = ladder.several.queries if ladder.several is not None else 0
    if total.count or several:
        of_several = f", {several:,} of them of several reads" if several else ""
        yield Check("ladder queries", Verdict.OK, f"{total.count + several:,} followed from start to end{of_several}")
    elif ladder.finished:
        held = ", ".join(f"{rung.count:,} {rung.name}" for rung in ladder.classes if rung.count)
        verdict = Verdict.NOTE if ladder.of_class("no_read").count == ladder.finished else Verdict.WARN
        yield Check("ladder queries", verdict, f"none went to the device: {held}", "there are no stages to show")
    else:
        asks = ladder.losses.get("async_calls", 0)
        idle = "the process was idle, or the probes saw none of it"
        yield Check(
            "ladder queries",
            Verdict.FAILED,
            f"no query ended in {ladder.seconds:.1f} s{ended}",
            f"an empty result: {'it reads by io_uring or libaio' if asks else idle}",
            "ioflame ebpf iolat" if asks else "a window in which it reads; ioflame doctor",
        )
    if ladder.process_ended and ladder.finished:
        yield from ended_checks("ladder", ladder.pid, ladder.ended_soon_s)


def _adds_up(ladder: Ladder) -> Iterator[Check]:
    for whole, parts in ladder.with_parts:
        sound = {part.count for part in parts.parts} == {whole.count} and abs(
            parts.mean_ns - whole.mean_ns
        ) <= _PARTS_NS
        yield Check(
            f"ladder sum of {whole.name}",
            Verdict.OK if sound else Verdict.FAILED,
            f"parts {parts.mean_ns / 1e3:.2f} us, query {whole.mean_ns / 1e3:.2f} us",
            "" if sound else "the parts are not of the same queries, or overlap",
        )
    if not ladder.total.count:
        return
    uneven = [rung.name for rung in ladder.stages if rung.count != ladder.total.count]
    difference = ladder.sum_of_parts_ns - ladder.total.mean_ns
    sound = not uneven and abs(difference) <= _PARTS_NS
    yield Check(
        "ladder sum",
        Verdict.OK if sound else Verdict.FAILED,
        f"parts {ladder.sum_of_parts_ns / 1e3:.2f} us, query {ladder.total.mean_ns / 1e3:.2f} us",
        "" if sound else "the stages are not of the same queries" + (f": {', '.join(uneven)}" if uneven else ""),
    )


def _started(ladder: Ladder) -> Iterator[Check]:
    if ladder.start == "syscall":
        yield Check("ladder start", Verdict.NOTE, "the read call", "; ".join(ladder.notes) or "as asked for")
    else:
        for note in ladder.notes:
            yield Check("ladder start", Verdict.NOTE, note)


def _asynchronous(ladder: Ladder) -> Iterator[Check]:
    calls = ladder.losses.get("async_calls", 0)
    if calls:
        yield Check(
            "ladder unobserved",
            Verdict.WARN,
            f"{calls:,} calls of io_uring_enter or io_submit",
            "what they read is not in the ladder, which follows read calls",
            "ioflame ebpf iolat   (it counts every request)",
        )


def _stepped(ladder: Ladder) -> Iterator[Check]:
    if ladder.trap is not None and ladder.stepped:
        names = ", ".join(watched.short for watched in ladder.stepped)
        cost = f"{ladder.trap.stepped_ns / 1e3:.1f} us a call instead of {ladder.trap.entry_ns / 1e3:.1f}"
        verdict = Verdict.WARN if ladder.trap.stepped_ns > _DEAR * ladder.trap.entry_ns else Verdict.NOTE
        yield Check(
            "ladder traps",
            verdict,
            f"{names}: single-stepped, {cost}",
            "the kernel cannot emulate its first instruction: the trap's time is in the stage after it",
            "a build with frame pointers (-fno-omit-frame-pointer)",
        )


def _other_classes(ladder: Ladder) -> Iterator[Check]:
    if not ladder.finished:
        return
    by_parts = {whole.name for whole, _ in ladder.with_parts}
    for name in _ODD_CLASSES:
        if name in by_parts:
            continue
        share = ladder.of_class(name).count / ladder.finished
        if share > _ODD:
            yield Check(
                f"ladder {name}",
                Verdict.WARN,
                f"{100 * share:.1f} % of the followed queries",
                f"{CLASSES[name]}; the stages are of {ladder.of_class(FOLLOWED).count:,} others",
            )


def _edges(ladder: Ladder) -> Iterator[Check]:
    allowed = max(ladder.threads * max(len(ladder.turns), 1), _EDGE * ladder.followed)
    if ladder.incomplete > allowed:
        yield Check(
            "ladder edges",
            Verdict.WARN,
            f"{ladder.incomplete:,} of {ladder.followed:,} followed queries did not end in the window",
            "more than one for each thread and edge: some queries' returns were not seen",
        )


def _engine(ladder: Ladder, rx_lat_us: float | None) -> Iterator[Check]:
    by_engine = ladder.seen_us if rx_lat_us is None else rx_lat_us
    if not by_engine or not ladder.cycle_ns:
        return
    share = ladder.rest_ns(by_engine * 1e3) / (by_engine * 1e3)
    error = max(ladder.error_ns / (by_engine * 1e3), 1 / math.sqrt(ladder.finished))
    verdict, why = Verdict.OK, ""
    if _cannot_be(share, error):
        verdict, why = Verdict.FAILED, "the parts are larger than the whole: the ladder's queries are not those counted"
    elif abs(share) > REST:
        why = (
            "threads that were not reading for a while" if share > 0 else "a query that is followed takes longer for it"
        )
        verdict = Verdict.WARN
    yield Check(
        "ladder and engine",
        verdict,
        f"query and client's loop {ladder.cycle_ns / 1e3:.2f} us, of it the probes {ladder.any_probe_ns / 1e3:.2f}, "
        f"latency {by_engine:.2f} us (rest {100 * share:+.1f} %)",
        why,
    )


def _cannot_be(rest: float, error: float) -> bool:
    """Whether what is left of a whole, as a share, is negative by more than three standard errors, which are shares as
    well: 1/sqrt(n) of n durations that spread by as much as they last."""
    return rest < -_LARGER - 3 * error


def _device(ladder: Ladder) -> Iterator[Check]:
    """Reads of these queries cannot take longer than all reads of the device."""
    share = ladder.others_share
    if share is not None and _cannot_be(share, 1 / math.sqrt(ladder.total.count)):
        yield Check(
            "ladder and device",
            Verdict.FAILED,
            f"queue and device by the ladder are {100 * (1 - share):.1f} % of the device's time by diskstats",
            "the parts are larger than the whole: the followed reads do not represent the others",
            "a longer window"
            + Setting.LADDER_SAMPLE.where_known(f", or every query followed ({Setting.LADDER_SAMPLE.to(1)})"),
        )
