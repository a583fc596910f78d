"""Intervals of what was measured in turns: by how its rounds differ, and not its seconds, which follow each other too
closely to be told apart from a host that changed."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ground.results.interval import Interval
from ground.results.metrics import MODE_METRIC, has_one_rate, ratio_of, sums_of
from ground.results.profile import Slices
from ground.results.record import ObserverCost, RunRecord, Window
from ioflame.analysis.bootstrap import jackknife_error
from ioflame.analysis.quantiles import t_quantile

Sums = Mapping[str, float]
# Of fewer parts no interval can be had.
FEWEST = 3


def interval_of(parts: Sequence[Sums], of: Callable[[Sums], float]) -> Interval | None:
    """A figure of the sums of all parts, such as a ratio, with the 95 % interval of its jackknife: Student's t of n - 1
    degrees of freedom (Tukey 1958). None for fewer than 3 parts. n: the parts

    A ratio of sums, not a mean of ratios: a part in which the disk stalled has few queries, and weighs as little.
    """
    if len(parts) < FEWEST:
        return None
    whole = _added(parts)
    without = [of({name: value - part[name] for name, value in whole.items()}) for part in parts]
    reach = t_quantile(0.95, len(parts) - 1) * jackknife_error(without)
    return Interval(of(whole), of(whole) - reach, of(whole) + reach, len(parts))


def by_round(windows: Iterable[Window], kind: str) -> dict[int, list[Window]]:
    """The turns of each round; windows that are none are rounds of their own."""
    found: dict[int, list[Window]] = defaultdict(list)
    for place, window in enumerate(windows):
        if window.kind == kind:
            found[window.round or -place - 1].append(window)
    return found


def plain_parts(windows: Iterable[Window], threads: int) -> dict[int, Sums]:
    """What the plain turns of each round add up to (`metrics.sums_of`), those whose queries are known; by round."""
    rounds = by_round((window for window in windows if window.counters.queries), "plain")
    return {number: sums_of(turns, threads) for number, turns in rounds.items()}


def slices_by_turn(slices: Slices, turns: Sequence[Sequence[Window]]) -> list[list[int]]:
    """The slices of a profile that belong to each of these turns of perf: a slice to the one it lies in most."""
    found: list[list[int]] = [[] for _ in turns]
    for number in range(max(slices.slice, default=-1) + 1):
        begin = slices.start_ns + number * slices.length_ns
        end = begin + slices.length_ns
        inside = [sum(max(min(end, w.end_ns) - max(begin, w.start_ns), 0) for w in windows) for windows in turns]
        if any(inside):
            found[inside.index(max(inside))].append(number)
    return found


@dataclass(frozen=True)
class ProfiledRounds:
    """Of a run that perf watched in turns. For each of its rounds the slices of the profile, and the sums of its plain
    turns, where their queries are known.

    metric: of METRICS, the CPU per query that the profile divides up
    """

    slices: Sequence[Sequence[int]]
    plain: Sequence[Sums | None]
    metric: str

    @classmethod
    def of(cls, record: RunRecord, slices: Slices | None) -> ProfiledRounds | None:
        """None where there are too few rounds for an interval."""
        turns = by_round(record.windows, "perf")
        plain = plain_parts(record.windows, record.threads)
        if slices is None or len(turns) < FEWEST:
            return None
        metric = MODE_METRIC[record.profile.mode if record.profile is not None else "all"]
        return cls(slices_by_turn(slices, [*turns.values()]), [plain.get(number) for number in turns], metric)

    def parts(self, own: Sequence[int], every: Sequence[int]) -> list[Sums | None]:
        """Of each round: weights of some stacks and of all, with its plain sums; None where those are not known."""
        both = zip(self.slices, self.plain, strict=True)
        return [plain and {**_weights(slices, own, every), **plain} for slices, plain in both]

    def us_of(self, sums: Sums) -> float:
        """Of a query, of what `parts` gives."""
        return _part(sums) * ratio_of(self.metric, sums)

    def share(self, own: Sequence[int], every: Sequence[int]) -> Interval | None:
        """Of some stacks in all weight, percent. own, every: the weight of each slice"""
        found = interval_of([_weights(one, own, every) for one in self.slices], lambda sums: 100 * _part(sums))
        # Of few rounds Student's t reaches beyond what a share can be.
        return found and Interval(found.estimate, max(found.low, 0.0), min(found.high, 100.0), found.n)

    def us(self, own: Sequence[int], every: Sequence[int], whole_us: float) -> Interval | None:
        """Of a query, of the `whole_us` that all stacks are: what varies of their share and of the CPU of a query.

        The figure rests on all plain turns, its interval on the rounds that have a turn of perf.
        """
        parts = [part for part in self.parts(own, every) if part is not None]
        found = interval_of(parts, self.us_of)
        share = sum(own) / sum(every) if found is not None and found.estimate else 0.0
        return found.times(whole_us * share / found.estimate) if found is not None and share else None


def _weights(slices: Sequence[int], own: Sequence[int], every: Sequence[int]) -> dict[str, float]:
    return {"own": sum(own[i] for i in slices), "all": sum(every[i] for i in slices)}


def _part(sums: Sums) -> float:
    return sums["own"] / sums["all"] if sums["all"] else 0.0


def observer_costs(windows: Sequence[Window]) -> list[ObserverCost]:
    """QPS and CPU per query of each observer's turns over those of the plain ones before and after each, with 95 %
    intervals.

    windows: in their order. An observer with 3 turns or more: ratio of sums, jackknife over its turns. With a window of
    its own: by how much plain windows differ that are as near to each other as it is to them.
    """
    plain = [sums_of([one], 1) for one in windows if one.kind == "plain" and one.counters.queries]
    found = []
    for kind in dict.fromkeys(w.kind for w in windows if w.kind not in ("plain", "warm-up")):
        pairs = {place: pair for place, w in enumerate(windows) if w.kind == kind and (pair := _pair(windows, place))}
        if not pairs:
            continue
        qps, cpu = (
            _of_turns(pairs, name) or _of_one(_added(pairs.values()), plain, name) for name in ("qps", "cpuPer")
        )
        if qps is not None:
            found.append(ObserverCost(kind, qps, cpu))
    return found


def costs_of(record: RunRecord) -> tuple[list[ObserverCost], ObserverCost | None]:
    """Of each observer, and of nothing attached; none where one rate is taken for all windows."""
    if has_one_rate(record):
        return [], None
    costs = observer_costs(record.windows)
    return costs, host_change(record.windows, costs)


def host_change(windows: Sequence[Window], costs: Sequence[ObserverCost]) -> ObserverCost | None:
    """The same of nothing attached: of `null`, or of every second plain turn, as if it were an observer's. None where
    there are too few.

    costs: of these windows
    """
    cost = next((cost for cost in costs if cost.kind == "null"), None)
    if cost is not None:
        return cost
    plain = [window for window in windows if window.kind == "plain" and window.round]
    taken = [replace(window, kind="null") if place % 2 else window for place, window in enumerate(plain)]
    return next(iter(observer_costs(taken)), None) if len(plain) > 2 * FEWEST else None


def _of_turns(pairs: Mapping[int, Sums], metric: str) -> Interval | None:
    """pairs: by the place of the turn. Two of them that have a plain turn in common are not independent: with d = on -
    (before + after) / 2 and turns that are, their covariance is a sixth of the variance of one, which makes that of the
    mean of n larger by 1 + shared / 3n, and what their scatter shows of it smaller by 1 - shared / 3n(n - 1)."""
    found = interval_of([*pairs.values()], partial(_ratio, metric))
    if found is None:
        return None
    n, shared = len(pairs), sum(place + 2 in pairs for place in pairs)
    wider = math.sqrt((1 + shared / (3 * n)) / (1 - shared / (3 * n * (n - 1))))
    low, high = (found.estimate + wider * (end - found.estimate) for end in (found.low, found.high))
    return Interval(found.estimate, low, high, n)


def _pair(windows: Sequence[Window], place: int) -> Sums | None:
    """A window and its plain neighbours; None where the queries of one side are not known."""
    beside = [w for w in (*windows[max(place - 1, 0) : place], *windows[place + 1 : place + 2]) if w.kind == "plain"]
    beside = [window for window in beside if window.counters.queries]
    if not windows[place].counters.queries or not beside:
        return None
    on, off = sums_of([windows[place]], 1), sums_of(beside, 1)
    return {f"{side}.{name}": value for side, sums in (("on", on), ("off", off)) for name, value in sums.items()}


def _added(pairs: Iterable[Sums]) -> Sums:
    rows = [*pairs]
    return {name: math.fsum(row[name] for row in rows) for name in rows[0]}


def _ratio(metric: str, sums: Sums) -> float:
    """0 where one side is empty without a pair."""
    on, off = (
        ratio_of(metric, {name.removeprefix(side): value for name, value in sums.items() if name.startswith(side)})
        for side in ("on.", "off.")
    )
    return on / off if off else 0.0


def _of_one(sums: Sums, plain: Sequence[Sums], metric: str) -> Interval | None:
    """Of one window. Successive plain windows lie on both sides of an observer: twice as far from each other as it is
    from them, so their difference has at least 4/3 of the variance that it has from their mean with nothing attached
    (4/3 where windows are independent, 4 where the host drifts). None for fewer than 3 such pairs. n: the pairs"""
    values = [value for one in plain if (value := ratio_of(metric, one))]
    steps = [math.log(after / before) for before, after in itertools.pairwise(values)]
    ratio = _ratio(metric, sums)
    if len(steps) < FEWEST or not ratio:
        return None
    reach = t_quantile(0.95, len(steps)) * math.sqrt(0.75 * sum(step * step for step in steps) / len(steps))
    return Interval(ratio, ratio * math.exp(-reach), ratio * math.exp(reach), len(steps))
