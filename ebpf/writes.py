"""The write path of an engine: its observer, and checks of its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ebpf.backends import choose_backend
from ebpf.losses import ended_checks, path_loss_checks
from ebpf.observer import CoreObserver, option_words
from ground.results.checks import Check, Verdict
from ground.results.write_ladder import QUEUE, WriteLadder, stage_sum
from ground.system.process import Children

# What parts may differ from their whole by, as a share.
_REST = 0.01


@dataclass(frozen=True)
class WritesRequest:
    """The options of `ioflame-ebpf writes`. pid: the process; stages: `auto`, `full` or `few`

    force:   follow writes even where that takes more than 5 % of a CPU
    symbols: the engine's file that names the functions of its write path; None: those of the default engine
    exact_wake_ups: watch whoever ends a wait, where that is not single-stepped
    return_trampolines: as of a `LadderRequest`
    cost_turns: with and without watching, before the window, which tell what it costs
    """

    pid: int
    stages: str = "auto"
    force: bool = False
    symbols: Path | None = None
    exact_wake_ups: bool = False
    return_trampolines: bool = False
    cost_turns: int = 0


def writes_observer(request: WritesRequest, children: Children, out: Path) -> CoreObserver:
    """The observer that leaves a `WriteLadder` in `out`. HostError where the CO-RE programs do not run here."""
    choose_backend("co-re", "writes")
    turns = f", after {request.cost_turns} turns with and without" * bool(request.cost_turns)
    return CoreObserver("writes", f"writes stage by stage{turns}", children, option_words(**vars(request)), out)


def write_checks(ladder: WriteLadder) -> list[Check]:
    """What there is to say about the figures."""
    lost = path_loss_checks("writes", ladder.losses, ladder.writes, "writes")
    return [*_counted(ladder), *_adds_up(ladder), *_queue(ladder), *_stages(ladder), *_traps(ladder), *lost]


def _counted(ladder: WriteLadder) -> Iterator[Check]:
    if not ladder.finished:
        yield Check(
            "writes followed",
            Verdict.FAILED,
            f"no write ended in {ladder.seconds:.1f} s",
            "an empty result: the process did not write, or the probes saw none of it",
            "a window in which it writes; ioflame doctor",
        )
        return
    yield Check("writes followed", Verdict.OK, f"{ladder.finished:,} from start to end, of {ladder.writes:,} begun")
    most = ladder.threads * (ladder.end_ns - ladder.start_ns)
    if ladder.total_ns > most:
        yield Check(
            "writes window",
            Verdict.FAILED,
            f"{ladder.total_ns / 1e9:.3f} s of writes by {ladder.threads} threads in {ladder.seconds:.3f} s",
            "more than there is: these figures are wrong",
        )
    if ladder.process_ended:
        yield from ended_checks("writes", ladder.pid, ladder.ended_soon_s)


def _adds_up(ladder: WriteLadder) -> Iterator[Check]:
    if not ladder.finished:
        return
    for name, parts, whole in (
        ("writes sum", sum(one.sum_ns for role in ladder.roles for one in role.stages), ladder.total_ns),
        (
            "writes queue",
            sum(one.sum_ns for role in ladder.roles for one in role.join),
            stage_sum(ladder.roles, QUEUE).sum_ns,
        ),
    ):
        of = "write" if name == "writes sum" else "wait in the queue"
        sound = abs(parts - whole) <= _REST * whole
        yield Check(
            name,
            Verdict.OK if sound else Verdict.FAILED,
            f"parts {parts / ladder.finished / 1e3:.2f} us, {of} {whole / ladder.finished / 1e3:.2f} us",
            "" if sound else "the parts do not add up to the whole: these figures are wrong",
        )


def _queue(ladder: WriteLadder) -> Iterator[Check]:
    """Each write in the queue is a leader or a follower, and each group has one leader."""
    if not ladder.finished:
        return
    unknown = ladder.finished - ladder.queued
    if unknown:
        verdict = Verdict.WARN if unknown > _REST * ladder.finished else Verdict.NOTE
        yield Check(
            "writes roles",
            verdict,
            f"{unknown:,} of {ladder.finished:,} writes",
            "neither leader nor follower: their state in the queue was not read, or they were in none",
        )
    if ladder.full and ladder.queued and not ladder.losses.get("group_unknown"):
        # Groups and writes that the window's edges cut are on one side alone.
        off = abs(ladder.grouped - ladder.joins)
        edges = 2 * ladder.threads
        yield Check(
            "writes groups",
            Verdict.OK if off <= edges else Verdict.WARN,
            f"{ladder.grouped:,} writes in {ladder.groups:,} groups, {ladder.joins:,} through the queue",
            "" if off <= edges else "more than the window's edges account for: sizes of groups are not to be relied on",
        )


def _stages(ladder: WriteLadder) -> Iterator[Check]:
    for note in ladder.notes:
        yield Check("writes stages", Verdict.NOTE, note)
    if ladder.full and ladder.missing:
        yield Check(
            "writes stages",
            Verdict.NOTE,
            f"no function for {', '.join(ladder.missing)}",
            "this release has none of the names that are known: their time is in other stages",
        )
    if not ladder.wake_ups:
        yield Check(
            "writes wake-ups",
            Verdict.NOTE,
            "by the scheduler",
            "they begin when the scheduler wakes the thread: what a leader does until then is in its stages",
            "ioflame ebpf writes --exact-wake-ups (RocksDB 10.6 and newer, Debian's): 1 to 3 us more of each write",
        )


def _traps(ladder: WriteLadder) -> Iterator[Check]:
    if not ladder.finished:
        return
    if ladder.stepped:
        names = ", ".join(dict.fromkeys(one.name.partition("(")[0] for one in ladder.stepped))
        yield Check(
            "writes traps",
            Verdict.WARN,
            f"{names}: single-stepped, {ladder.trap.stepped_ns / 1e3:.1f} us a call",
            "the kernel cannot emulate its first instruction: the trap's time is in the stage after it",
        )
