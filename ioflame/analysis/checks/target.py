"""What has to be said of a target that was attached to: its queries, what became of it, and what watching it took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ground.results.categories import Categories
from ground.results.checks import Check, Verdict
from ground.results.metrics import MOST_ENDED, ended_seconds
from ground.results.record import OwnCost, Target, Window

__all__ = ("rules_check", "target_checks")

# Of the queries of the plain windows, %, by how much old answers may be off before they make a figure doubtful.
_MOST_OFF = 10.0
_GROUP = "--cgroup NAME or --container ID: a group's counter holds what has ended"
# Of the CPU: with fewer samples the shares are of a part of what ran.
_SAMPLED = 0.8


def target_checks(target: Target, windows: Sequence[Window], coverage: float | None = None) -> Iterator[Check]:
    """coverage: of the CPU in the perf window, what was sampled; None where that is not known"""
    if not target.count:
        yield Check(
            "queries",
            Verdict.NOTE,
            "not counted",
            "there is no us per query: shares, cores and us per storage read alone",
            "--count 'COMMAND', --count-prometheus URL METRIC, --count-symbol FUNCTION or --count-preset NAME",
        )
    elif target.count_failed:
        yield Check(
            "count",
            Verdict.FAILED,
            target.count_failed,
            f"queries by {target.count} are not known to the end",
            "a counter that only grows, and answers",
        )
    else:
        yield _count_check(target, [window.seconds for window in windows if window.kind == "plain"])
    yield from _ended_check(target, windows, coverage)
    for note in target.notes:
        yield Check("target", Verdict.WARN, note, "what was seen until then, or beside it, is kept")
    if target.redacted:
        yield Check(
            "names",
            Verdict.NOTE,
            "redacted: shown are those of the engine, the kernel, and the C and C++ libraries",
            "the others are hashes, each name one within this run; its recordings are not kept",
        )
    yield from target.names
    if target.cost is not None:
        yield _cost_check(target.cost)


def _count_check(target: Target, plain: Sequence[float]) -> Check:
    """plain: lengths of the plain windows, s.

    What an answer lacks is spread evenly over the lag, and differs from edge to edge: of a window's two edges the
    difference has the standard deviation lag / sqrt(6), of n windows sqrt(n) times that; 95 % are 1.96 of them.
    """
    if not target.count_lag or not plain:
        return Check("count", Verdict.OK, target.count)
    off = 100 * 1.96 * target.count_lag * math.sqrt(len(plain) / 6) / sum(plain)
    return Check(
        "count",
        Verdict.WARN if off > _MOST_OFF else Verdict.OK,
        f"answers up to {target.count_lag:g} s old: +-{off:.1f} % of the queries of the plain windows; {target.count}",
        "less where several connections each have their own; us per query are off by as much",
        "a larger --seconds" if off > _MOST_OFF else "",
    )


def _ended_check(target: Target, windows: Sequence[Window], coverage: float | None) -> Iterator[Check]:
    seconds = sum(window.counters.cpu_ns for window in windows) / 1e9
    unseen = coverage is not None and coverage < _SAMPLED
    if target.ended_lost:
        many = f"{target.ended_lost} processes" if target.ended_lost > 1 else "1 process"
        yield Check(
            "ended processes",
            Verdict.FAILED,
            f"{many} ended, and no process of the target waited for them",
            "the kernel dropped their counters: CPU, and CPU per query, are too low by what they used since they were "
            "last seen, and by those that were never seen",
            _GROUP,
        )
    elif target.ignoring:
        yield Check(
            "ended processes",
            Verdict.WARN,
            f"process {', '.join(map(str, target.ignoring))} ignores SIGCHLD",
            "the kernel keeps no counters of children that it does not wait for: where it starts any that end between "
            "two looks, their CPU is missing",
            _GROUP,
        )
    elif (ended := ended_seconds(windows)) > MOST_ENDED * seconds:
        yield Check(
            "ended processes",
            Verdict.WARN if unseen else Verdict.NOTE,
            f"{ended:.1f} of {seconds:.1f} s of CPU were used after the last look at who used it",
            "by the kernel's sums of ended threads and processes: their waits and context switches are not known"
            + (
                f"; {coverage:.0%} was sampled: shares are of that, without processes that no look saw"
                if unseen
                else ""
            ),
        )


def _cost_check(cost: OwnCost) -> Check:
    own = sum(cost.seconds.values())
    allowed = cost.allowed or (cost.budget or 0.0) * cost.target_seconds
    share = own / cost.target_seconds if cost.target_seconds else 0.0
    parts = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in cost.seconds.items())
    value = f"{own:.2f} s of CPU in our processes, {share:.1%} of the target's {cost.target_seconds:.1f} s ({parts})"
    if cost.unlimited:
        value += f"; no control group bounded it ({cost.unlimited})"
    if cost.budget is None:
        return Check("cost", Verdict.OK, value, "without what the kernel does in the target's own time")
    within = own <= allowed
    # Older runs have none: their budget was of the time watched.
    meanwhile = f"in {cost.period:g} s" if cost.period else "meanwhile"
    value += f"; {100 * cost.budget:g} % of what it uses {meanwhile}, {allowed:.2f} s, were allowed"
    if cost.cut:
        value += f"; ended early for that: {', '.join(cost.cut)}"
    return Check(
        "budget",
        Verdict.OK if within and not cost.cut else Verdict.WARN,
        value,
        "" if within else "starting, attaching and writing alone took more",
        "" if within and not cost.cut else "a larger --budget, or --per TIME where it is watched once in that time",
    )


def rules_check(categories: Categories, general_rows: Iterable[str]) -> Iterator[Check]:
    """Where no stack is of the engine whose rules were taken. general_rows: rows that programs without it have, too"""
    if {row.name for row in categories.rows if row.weight} <= {"other", *general_rows}:
        yield Check(
            "rules",
            Verdict.WARN,
            "no stack has a frame that they know",
            "it is another program, or one whose functions have no names; what its CPU does is in the leaf view",
            "ioflame show RUN leaf; --engine NAME, or --rules FILE of your own",
        )
