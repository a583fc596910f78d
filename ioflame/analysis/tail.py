"""Why the slowest queries are slow: where their time went beside that of median ones, from records of single queries.

A row is a kind of waiting, of locks, conditions and sleeps with the frame that waited. Within a query the rows add up
to it, so those of a group add up to the group's mean. That a row is larger in the slow group is no cause.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from folding.wait_places import WaitPlace, place_of
from ground.errors import MeasurementError
from ground.results.interval import Interval
from ground.results.query_records import BLOCKED, PARTS, QueryRecord, Recorded, RecordFile, Span
from ground.results.tail import KIND_OF_PART, KINDS, MOST_READS, P99, MixRow, Tail, TailGroup, TailRow, Threshold
from ioflame.analysis.checks.tail import notes_of
from ioflame.analysis.tail_detail import Undisturbed, beside_rows, cpu_rows, strip_of, worst_queries
from ioflame.analysis.tail_groups import Bounds, Cuts, Row, Scored, ScoredGroups, Used

BLOCK_NS = 250_000_000
_Z = 1.96
# What sums of many weights may be off by.
_ROUNDING = 1e-9
# Below so many slow records no difference is printed.
_LEAST = 50
# Of a group's mean: rows below it in both groups are one row of their kind.
_SMALL = 0.005
# More records that cannot be in the slow group would not make the median more precise.
_MOST_OTHERS = 20_000
_CANDIDATES = 0.97
_WORST = 10

# What a read call that neither slept nor was sampled is called.
_NO_STACK = "no stack: did not sleep"

_KIND_OF_STATE = {"lock": "lock", "condition": "condition"}
_ELSEWHERE: Row = ("sleep", "waits beyond the 16 that a record holds")


@dataclass(frozen=True)
class TailAnalysis:
    """tail: the result; used, undisturbed: its records, and how long the sampled ones had been without samples"""

    tail: Tail
    used: list[Used]
    undisturbed: Undisturbed


def row_of(wait: Span, places: Mapping[int, WaitPlace], states: Sequence[str]) -> Row:
    """The row of the time from leaving the CPU to the wake-up."""
    if wait.part != BLOCKED:
        return (KIND_OF_PART[PARTS[wait.part]], "")
    state = states[wait.state]
    return (_KIND_OF_STATE.get(state, "sleep"), place_of(places, wait.place, state).where)


def used_records(recorded: Recorded, file: RecordFile, places: Mapping[int, WaitPlace]) -> list[Used]:
    """Every record with its weight, so that the kept records represent all that were counted: the slow ones represent
    the slow, those drawn at random the others. Without the records that were kept for their samples alone."""
    chosen = [record for record in file.records if record.weight]
    kept = Counter(record.slow for record in chosen)
    counted = {True: recorded.slow, False: recorded.histogram.count - recorded.slow}
    weights = {slow: counted[slow] / number for slow, number in kept.items()}
    return [Used(record, weights[record.slow], _rows(record, places, file.states)) for record in chosen]


def _rows(record: QueryRecord, places: Mapping[int, WaitPlace], states: Sequence[str]) -> dict[Row, int]:
    found: dict[Row, int] = {
        (KIND_OF_PART[name], ""): ns for name, ns in zip(PARTS, record.parts, strict=True) if ns and name != "blocked"
    }
    left = record.parts[BLOCKED]
    if left:
        for wait in record.waits:
            if wait.part == BLOCKED:
                row = row_of(wait, places, states)
                found[row] = found.get(row, 0) + wait.woken - wait.left
                left -= wait.woken - wait.left
    if left:
        found[_ELSEWHERE] = found.get(_ELSEWHERE, 0) + left
    return found


def tail_of(
    recorded: Recorded,
    file: RecordFile,
    places: Mapping[int, WaitPlace],
    jobs: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    seed: int = 1,
    reasons: Mapping[int, str] | None = None,
) -> TailAnalysis:
    """The slow queries beside the median ones. MeasurementError where no query was recorded.

    jobs:    as `beside_rows` has them
    reasons: what queries that are read calls were for, by the numbers of places; the mix is by these then
    """
    used = used_records(recorded, file, places)
    if not used:
        raise MeasurementError(
            f"no query of process {recorded.pid} was recorded in {recorded.seconds:.1f} s",
            means=f"{recorded.queries:,} began, {recorded.histogram.count:,} were followed to their end",
            mend="a window in which it has queries; ioflame doctor",
        )
    blocks = max(1, -(-(recorded.end_ns - recorded.start_ns) // BLOCK_NS))
    cuts, asked = _cuts(recorded)
    thinned = _thinned(used, recorded.threshold_ns, seed)
    groups = ScoredGroups(_scored(thinned, [], recorded.start_ns, blocks), blocks, cuts)
    ordered = sorted(used, key=lambda one: one.record.ns)
    least = groups.upper[0].score if groups.upper else ordered[-1].record.ns + 1
    slow = [one for one in ordered if one.record.ns >= least]
    low, high = groups.middle[0].score, groups.middle[-1].score
    median = [one for one in ordered if low <= one.record.ns <= high]
    apart = not slow or high < slow[0].record.ns
    rows = _kept_rows(slow, median)
    means = [_means(group, rows) for group in (slow, median)]
    gaps = None
    if apart and len(slow) >= _LEAST:
        groups = ScoredGroups(_scored(thinned, rows, recorded.start_ns, blocks), blocks, cuts)
        gaps = groups.differences(seed=seed)
    longest, middle = _group(slow), _group(median)
    surplus = longest.mean_us - middle.mean_us
    mix, mix_us, within_us = _mix(slow, median, reasons)
    told = gaps is not None
    bounds = Bounds(round(least), (median[0].record.ns, median[-1].record.ns), recorded.start_ns, BLOCK_NS, blocks)
    counted = [(one.record, one.weight) for one in used]
    cpu = cpu_rows(counted, file.records, places, bounds)
    threshold = _threshold(ordered, slow, recorded.histogram.count, cuts, asked)
    weight = sum(one.weight for one in used)
    lost = recorded.losses.get("lost_slow", 0)
    tail = Tail(
        pid=recorded.pid,
        start_ns=recorded.start_ns,
        end_ns=recorded.end_ns,
        sample=recorded.sample,
        queries=recorded.queries,
        followed=recorded.followed,
        counted=recorded.histogram.count,
        threads=recorded.threads,
        mean_us=(recorded.histogram.mean_ns or 0.0) / 1e3,
        weighted_us=sum(one.weight * one.record.ns for one in used) / weight / 1e3 if weight else 0.0,
        wall_share=_wall_share(recorded, slow),
        threshold=threshold,
        tail=longest,
        median=middle,
        rows=_tail_rows(rows, means, gaps, surplus if told else None, _wakers(slow, places, file.states)),
        gap=Interval(surplus, gaps[0].low, gaps[0].high, gaps[0].n) if gaps is not None else None,
        mix=mix,
        mix_us=mix_us if told else None,
        within_us=within_us if told else None,
        own_us=(_mean_own_us(slow), _mean_own_us(median)),
        lost_slow=lost,
        worst=worst_queries([one.record for one in ordered[: -_WORST - 1 : -1]], places, file.states),
        notes=notes_of(recorded, threshold, len(slow), told, apart),
        cpu=cpu.rows if apart else [],
        cpu_samples=cpu.samples,
        cpu_disturbed=cpu.disturbed,
        beside=beside_rows(counted, jobs or {}, bounds) if apart else [],
        strip=strip_of([one.record for one in slow], counted, jobs or {}, (recorded.start_ns, recorded.end_ns)),
        kind=recorded.kind,
    )
    return TailAnalysis(tail, used, cpu.undisturbed)


def _cuts(recorded: Recorded) -> tuple[Cuts, bool]:
    """Where the slow group begins, and whether that was asked for. Where the 99th percentile is shorter than what was
    kept for its duration, the slow ones are those that were."""
    if recorded.threshold_ns is not None:
        return Cuts(P99, float(recorded.threshold_ns)), True
    count = recorded.histogram.count
    if recorded.slow_ns and recorded.slow < (1 - P99) * count:
        return Cuts(P99, float(recorded.slow_ns)), False
    return Cuts(P99), False


def _thinned(used: Sequence[Used], threshold_ns: int | None, seed: int) -> list[Used]:
    """All that may be in the slow group of a resample, and at most `_MOST_OTHERS` others, weighted up."""
    ordered = sorted(used, key=lambda one: one.record.ns)
    reached, at = 0.0, 0
    whole = sum(one.weight for one in ordered)
    while at < len(ordered) and (
        reached < _CANDIDATES * whole if threshold_ns is None else ordered[at].record.ns < threshold_ns
    ):
        reached += ordered[at].weight
        at += 1
    if at <= _MOST_OTHERS:
        return ordered
    drawn = random.Random(seed).sample(ordered[:at], _MOST_OTHERS)
    scale = reached / sum(one.weight for one in drawn)
    return [*(Used(one.record, one.weight * scale, one.rows) for one in drawn), *ordered[at:]]


def _scored(used: Iterable[Used], rows: Sequence[Row], start_ns: int, blocks: int) -> list[Scored]:
    """values: the whole query, then the rows, us."""
    found = []
    for one in used:
        block = min(max(one.record.end_ns - start_ns, 0) // BLOCK_NS, blocks - 1)
        values = _in_rows(one.rows, rows)
        found.append(Scored(one.record.ns, one.weight, block, (one.record.ns / 1e3, *values)))
    return found


def _in_rows(ns: Mapping[Row, int], rows: Sequence[Row]) -> list[float]:
    """us by row; what has no row of its own is in the row of its kind (where: `other`)."""
    place = {row: number for number, row in enumerate(rows)}
    values = [0.0] * len(rows)
    for row, time in ns.items():
        number = place.get(row, place.get((row[0], _others(row[0]))))
        if number is not None:
            values[number] += time / 1e3
    return values


def _others(kind: str) -> str:
    return f"other {kind}s"


def _kept_rows(slow: Sequence[Used], median: Sequence[Used]) -> list[Row]:
    """The rows in the order of tables, small ones of a kind as one."""
    sums: list[defaultdict[Row, float]] = [defaultdict(float), defaultdict(float)]
    for group, total in zip((slow, median), sums, strict=True):
        for one in group:
            for row, ns in one.rows.items():
                total[row] += one.weight * ns
    wholes = [sum(total.values()) or 1.0 for total in sums]
    large = {row for total, whole in zip(sums, wholes, strict=True) for row, ns in total.items() if ns > _SMALL * whole}
    seen = {row for total in sums for row in total}
    kept = {row for row in seen if not row[1] or row in large}
    kept |= {(kind, _others(kind)) for kind, _ in seen - kept}
    order = list(KINDS)
    return sorted(kept, key=lambda row: (order.index(row[0]), -sums[0].get(row, 0.0), row[1]))


def _means(group: Sequence[Used], rows: Sequence[Row]) -> list[float]:
    """us a query by row."""
    weight = sum(one.weight for one in group)
    total = [0.0] * len(rows)
    for one in group:
        for number, us in enumerate(_in_rows(one.rows, rows)):
            total[number] += one.weight * us
    return [value / weight if weight else 0.0 for value in total]


def _tail_rows(
    rows: Sequence[Row],
    means: Sequence[Sequence[float]],
    gaps: Sequence[Interval] | None,
    surplus: float | None,
    wakers: Mapping[Row, tuple[int, float]],
) -> list[TailRow]:
    found = []
    for number, row in enumerate(rows):
        kind, where = row
        tail, median = means[0][number], means[1][number]
        gap = gaps[number + 1] if gaps is not None else None
        share = (tail - median) / surplus if surplus else None
        name = where if where == _others(kind) else f"{kind} in {where}" if where else kind
        # Of the groups themselves; a resample may have been of fewer of the median.
        told = Interval(tail - median, gap.low, gap.high, gap.n) if gap is not None else None
        found.append(TailRow(name, kind, tail, median, told, share, wakers.get(row)))
    return found


def _group(group: Sequence[Used]) -> TailGroup:
    weight = sum(one.weight for one in group)
    mean = sum(one.weight * one.record.ns for one in group) / weight / 1e3 if weight else 0.0
    lengths = [one.record.ns for one in group]
    return TailGroup(len(group), weight, mean, min(lengths, default=0), max(lengths, default=0))


def _threshold(ordered: Sequence[Used], slow: Sequence[Used], n: int, cuts: Cuts, asked: bool) -> Threshold:
    """With the ranks q n -+ 1.96 sqrt(n q (1 - q)) as the interval of a percentile (an order statistic)."""
    whole = sum(one.weight for one in ordered)
    quantile = 1 - sum(one.weight for one in slow) / whole if whole else 0.0
    at = slow[0].record.ns if slow else round(cuts.at or 0)
    if cuts.at is not None:
        return Threshold(round(cuts.at), round(cuts.at), round(cuts.at), quantile, asked)
    half = _Z * ((1 - P99) * P99 / n) ** 0.5 if n else 0.0
    low, high = (_reaching(ordered, (P99 + side * half) * whole) for side in (-1, 1))
    return Threshold(at, low, high, P99, asked)


def _reaching(ordered: Sequence[Used], weight: float) -> int:
    reached = 0.0
    for one in ordered:
        reached += one.weight
        if reached >= weight * (1 - _ROUNDING):
            return one.record.ns
    return ordered[-1].record.ns


def _wall_share(recorded: Recorded, slow: Sequence[Used]) -> float:
    """Of the threads' time within the window; of one query in `sample`, as many others are as slow."""
    time = recorded.threads * (recorded.end_ns - recorded.start_ns)
    return recorded.sample * sum(one.weight * one.record.ns for one in slow) / time if time else 0.0


def _mean_own_us(group: Sequence[Used]) -> float:
    weight = sum(one.weight for one in group)
    return sum(one.weight * one.record.own_ns for one in group) / weight / 1e3 if weight else 0.0


def _wakers(
    slow: Sequence[Used], places: Mapping[int, WaitPlace], states: Sequence[str]
) -> dict[Row, tuple[int, float]]:
    """Who woke the slow queries' waits for locks and conditions, most often. What an interrupt wakes has no waker."""
    seen: defaultdict[Row, Counter[int]] = defaultdict(Counter)
    for one in slow:
        for wait in one.record.waits:
            row = row_of(wait, places, states)
            if row[0] in _KIND_OF_STATE and wait.who:
                seen[row][wait.who] += 1
    most = {row: wakers.most_common(1)[0] for row, wakers in seen.items()}
    return {row: (tid, times / seen[row].total()) for row, (tid, times) in most.items()}


def _mix(
    slow: Sequence[Used], median: Sequence[Used], reasons: Mapping[int, str] | None
) -> tuple[list[MixRow], float, float]:
    """Queries by their reads, or by what they were for; of the difference of the means, what another mix makes and what
    is within classes, us.

    Kitagawa (1955): sum((b - a) * (u + v) / 2) is mix, sum((a + b) / 2 * (v - u)) within. A class that one group lacks
    is mix alone.
    """
    sums = [_by_class(group, reasons) for group in (slow, median)]
    weights = [sum(weight for weight, _ in by_class.values()) or 1.0 for by_class in sums]
    rows, mix, within = [], 0.0, 0.0
    for one in sorted(set().union(*sums)):
        shares = [by_class[one][0] / whole for by_class, whole in zip(sums, weights, strict=True)]
        means = [by_class[one][1] / by_class[one][0] if by_class[one][0] else None for by_class in sums]
        first = means[0] if means[0] is not None else means[1] or 0.0
        second = means[1] if means[1] is not None else first
        mix += (shares[0] - shares[1]) * (first + second) / 2
        within += sum(shares) / 2 * (first - second)
        reads, reason = one
        rows.append(MixRow(reads, shares[0], shares[1], means[0], means[1], reason))
    return rows, mix, within


def _by_class(
    group: Sequence[Used], reasons: Mapping[int, str] | None
) -> defaultdict[tuple[int, str], tuple[float, float]]:
    """Weight, and weighted us, by the number of reads and by what they were for."""
    found: defaultdict[tuple[int, str], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for one in group:
        reason = _reason(one.record, reasons) if reasons is not None else ""
        number = (min(one.record.reads, MOST_READS), reason)
        weight, us = found[number]
        found[number] = (weight + one.weight, us + one.weight * one.record.ns / 1e3)
    return found


def _reason(record: QueryRecord, reasons: Mapping[int, str]) -> str:
    """By a stack of where it waited or ran; what did not sleep and was not sampled has none."""
    told = (reasons.get(span.place) for span in record.spans if not span.is_request and span.place)
    return next((reason for reason in told if reason is not None), _NO_STACK)
