"""What has to be said of a target that was attached to: its queries, what became of it, and what watching it took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ground.results.categories import Categories
from ground.results.checks import Check, Verdict
from ground.results.metrics import MOST_ENDED, ended_seconds
from ground.results.record import OwnCost, Target, Window
from ioflame.analysis.metric_intervals import count_off

# Of the queries of the plain windows, %, by how much their count may be off before it makes a figure doubtful.
_MOST_OFF = 10.0
# The plain windows' rate against that of the whole benchmark.
_MOST_APART = 0.1
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
        plain = [window for window in windows if window.kind == "plain"]
        yield _count_check(target, plain)
        yield from _client_check(target, plain)
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


def _count_check(target: Target, plain: Sequence[Window]) -> Check:
    off = 100 * count_off(plain)
    aged = f"answers up to {target.count_lag:g} s old: " * bool(target.count_lag)
    return Check(
        "count",
        Verdict.WARN if off > _MOST_OFF else Verdict.OK,
        f"{aged}+-{off:.1f} % of the queries of the baseline windows; {target.count}" if off else target.count,
        "the intervals of qps and of us per query hold it" if off else "",
        "a larger --seconds" if off > _MOST_OFF else "",
    )


def _client_check(target: Target, plain: Sequence[Window]) -> Iterator[Check]:
    """The client's own total beside the plain windows: whether these were slower, or miscounted."""
    counted = [window for window in plain if window.counters.queries]
    seconds = sum(window.seconds for window in counted)
    own = target.client_qps
    if own is None or not seconds or not own.estimate:
        return
    rate = sum(window.counters.queries or 0.0 for window in counted) / seconds
    apart = rate / own.estimate - 1
    far = abs(apart) > _MOST_APART and not own.low <= rate <= own.high
    yield Check(
        "whole benchmark",
        Verdict.WARN if far else Verdict.OK,
        f"{own.estimate:,.0f} queries a second by the client's own count ({own.low:,.0f} to {own.high:,.0f} possible "
        f"with what came before its first report and after its last); in the baseline windows "
        f"{rate:,.0f}, {apart:+.1%}",
        "the baseline windows ran at another rate than the rest of it, such as its beginning" if far else "",
        "longer windows: a larger --duration of the client, or --seconds" if far else "",
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
