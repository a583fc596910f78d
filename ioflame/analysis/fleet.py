"""Two versions in a fleet: what differs within strata, and what a changed mix of hosts adds. The host is the unit.

Kitagawa (1955), "Components of a difference between two rates": with a and b the shares of the strata in the hosts of
the two versions, and u their means, the whole difference is exactly
sum((a + b) / 2 * (u_arm - u_base)) within strata, and sum((b - a) * (u_base + u_arm) / 2), which is mix.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from typing import Any

from ground.results.fleet import Away, FleetChange, FleetPart, Watch
from ground.results.interval import Interval
from ioflame.analysis.compare.verdict import discovery_bound
from ioflame.analysis.quantiles import t_quantile, t_tail

# Of both versions together: below it, neither the test nor the reader has anything to go by.
_LEAST_SAMPLES = 30
# Of what is reported, at most this share is chance: a little below the 5 % that are promised.
_RATE = 0.04
# Of that, for what is found on single days.
_RATE_OF_DAYS = 0.01
_ROUNDING = 1e-12
# A gain and a loss in one class that cancel to this part of the larger were moved.
_CANCELS = 0.2
_KINDS = ("total", "category", "function")
_TOTAL = ("total", "all")
_TESTED = ("category", "function")
_Key = tuple[str, str]


@dataclass(frozen=True)
class Hosts:
    """The hosts of a version in a stratum: their number, and the sums of a figure of each and of its square."""

    hosts: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.hosts if self.hosts else 0.0

    @property
    def scatter(self) -> float:
        """The sum of squared deviations from the mean; 0 where the sums are too coarse to tell."""
        left = self.squares - self.hosts * self.mean**2 if self.hosts else 0.0
        return left if left > _ROUNDING * self.squares else 0.0


_NOBODY = Hosts(0, 0.0, 0.0)


def change_of(strata: Sequence[tuple[Hosts, Hosts]]) -> FleetChange | None:
    """Hosts of the base and of the arm by stratum. A stratum that only one of them has is mix.

    None where no stratum has both, or none two hosts of a version. Welch's t; a single host of a version in a stratum
    is taken to differ from its like as hosts of that version do in the other strata.
    """
    counts = [sum(stratum[side].hosts for stratum in strata) for side in (0, 1)]
    common = [stratum for stratum in strata if all(one.hosts for one in stratum)]
    freedoms = [sum(stratum[side].hosts - 1 for stratum in common) for side in (0, 1)]
    if not common or not all(freedoms):
        return None
    pooled = [sum(one[side].scatter for one in common) / freedoms[side] for side in (0, 1)]
    within = mix = variance = spread = of_mix = 0.0
    for stratum in common:
        shares = [one.hosts / count for one, count in zip(stratum, counts, strict=True)]
        weight, shift = sum(shares) / 2, shares[1] - shares[0]
        within += weight * (stratum[1].mean - stratum[0].mean)
        mix += shift * (stratum[0].mean + stratum[1].mean) / 2
        for one, alike, freedom in zip(stratum, pooled, freedoms, strict=True):
            own = one.hosts > 1
            part = (one.scatter / (one.hosts - 1) if own else alike) / one.hosts
            variance += weight**2 * part
            spread += weight**4 * part**2 / (one.hosts - 1 if own else freedom)
            of_mix += (shift / 2) ** 2 * part
    base, arm = (
        sum(stratum[side].total for stratum in strata) / count if count else 0.0 for side, count in enumerate(counts)
    )
    alone = arm - base - within - mix
    # Rounded down, so that the quantile of many parts is computed once.
    welch = max(1, int(variance**2 / spread)) if spread else sum(freedoms)
    if abs(within) < _ROUNDING * (abs(base) + abs(arm)):
        within = 0.0
    error, t = math.sqrt(variance), t_quantile(0.95, welch)
    p = t_tail(within / error, welch) if error else float(within == 0)
    hosts = sum(counts)
    half = t * math.sqrt(of_mix)
    return FleetChange(
        base, arm, Interval(within, within - t * error, within + t * error, hosts),
        Interval(mix + alone, mix + alone - half, mix + alone + half, hosts), p,
    )  # fmt: skip


def watch_of(rows: Sequence[Mapping[str, Any]], rate: float = _RATE) -> Watch | None:
    """rows: of fleet.sql; rate: of what is reported as found, at most this share is chance

    None where no stratum has hosts of both versions, or none two of one of them.
    """
    whole = [row for row in rows if row["day"] is None]
    of_day: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["day"] is not None:
            of_day[row["day"]].append(row)
    sides = _by_stratum(whole)
    changes = _changes(whole, sides)
    if _TOTAL not in changes:
        return None
    tested = {key: one for key, one in changes.items() if key[0] in _TESTED}
    of_days = _RATE_OF_DAYS / _RATE * rate if of_day else 0.0
    bound = discovery_bound([one.p for one in tested.values()], rate - of_days)
    found = {key for key, one in tested.items() if one.p <= bound}
    away = _went_away({day: _changes(of, _by_stratum(of)) for day, of in of_day.items()}, of_days)
    per_query = bool(whole[0]["per_query"])
    shown = [
        key for key in changes if key in found | away.keys() or key[0] == "category" or (key == _TOTAL and per_query)
    ]
    cores = _cores(whole, changes[_TOTAL])
    parts = [
        FleetPart(*key, changes[key], "temporary" if key in away else _verdict(key, changes[key], found, changes),
             None if cores is None else changes[key].within.estimate * cores, away.get(key))
        for key in sorted(shown, key=lambda key: (_KINDS.index(key[0]), -abs(changes[key].within.estimate)))
    ]  # fmt: skip
    strata = sides[_TOTAL].values()
    hosts = [sum(one[side].hosts for one in strata) for side in (0, 1)]
    return Watch(
        "us per query" if per_query else "% of CPU", (hosts[0], hosts[1]),
        sum(all(one.hosts for one in of) for of in strata), whole[0]["days"], len(tested), parts,
    )  # fmt: skip


def _by_stratum(rows: Sequence[Mapping[str, Any]]) -> dict[_Key, dict[str, list[Hosts]]]:
    """By part and stratum the hosts of the base and of the arm."""
    sides: dict[_Key, dict[str, list[Hosts]]] = defaultdict(lambda: defaultdict(lambda: [_NOBODY, _NOBODY]))
    for row in rows:
        of = sides[row["kind"], row["name"]][row["stratum"]]
        of[row["is_arm"]] = Hosts(row["hosts"], row["total"], row["squares"])
    return sides


def _changes(
    rows: Sequence[Mapping[str, Any]], sides: Mapping[_Key, Mapping[str, Sequence[Hosts]]]
) -> dict[_Key, FleetChange]:
    """Of the parts that have samples enough, and hosts of both versions."""
    samples: dict[_Key, int] = defaultdict(int)
    for row in rows:
        samples[row["kind"], row["name"]] += int(row["samples"])
    # Of other programs' profiles numbers of samples may not be known: then every part is tested.
    least = _LEAST_SAMPLES if any(samples.values()) else 0
    return {
        key: change
        for key, of in sides.items()
        if (key == _TOTAL or samples[key] >= least)
        and (change := change_of([(one[0], one[1]) for one in of.values()])) is not None
    }


def _went_away(by_day: Mapping[str, Mapping[_Key, FleetChange]], rate: float) -> dict[_Key, Away]:
    """What was seen on some day, while the days after the last such day differ from those before and not from zero.

    Each day is tested by itself: a part's p is that of its clearest day times the number of its days. Hosts are the
    same ones on many days, so the error of a mean over days is taken to be that of one day.
    """
    series: dict[_Key, dict[str, FleetChange]] = defaultdict(dict)
    for day in sorted(by_day):
        for key, change in by_day[day].items():
            if key[0] in _TESTED:
                series[key][day] = change
    ps = {key: len(of) * min(one.p for one in of.values()) for key, of in series.items()}
    bound = discovery_bound(list(ps.values()), rate)
    discovered = [key for key, p in ps.items() if p <= bound]
    enough = rate * len(discovered) / max(1, len(ps))
    seen = {
        day: {key for key in discovered if key in changes and len(series[key]) * changes[key].p <= enough}
        for day, changes in by_day.items()
    }
    found = {}
    for key in discovered:
        on = [
            day
            for day in series[key]
            if key in seen[day] and not (key[0] == "function" and _moved(key[1], seen[day], by_day[day]))
        ]
        after = [one.within for day, one in series[key].items() if on and day > on[-1]]
        if not after:
            continue
        then = _mean([one.within for day, one in series[key].items() if on[0] <= day <= on[-1]])
        since = _mean(after)
        ended = abs(then.estimate - since.estimate) > math.hypot(_half(then), _half(since))
        if ended and then.leaves_zero and not since.leaves_zero:
            days = (date.fromisoformat(on[-1]) - date.fromisoformat(on[0])).days + 1
            found[key] = Away(on[0], on[-1], days, then, since)
    return found


def _half(of: Interval) -> float:
    return (of.high - of.low) / 2


def _mean(days: Sequence[Interval]) -> Interval:
    estimate, half = statistics.fmean(one.estimate for one in days), statistics.fmean(map(_half, days))
    return Interval(estimate, estimate - half, estimate + half, max(one.n for one in days))


def _verdict(key: _Key, change: FleetChange, found: Set[_Key], changes: Mapping[_Key, FleetChange]) -> str:
    kind, name = key
    differs = change.within.leaves_zero if kind == "total" else key in found
    if differs and kind == "function" and _moved(name, found, changes):
        return "moved"
    if differs:
        return "regressed" if change.within.estimate > 0 else "improved"
    return "mix" if change.mix.leaves_zero else ""


def _moved(name: str, found: Set[_Key], changes: Mapping[_Key, FleetChange]) -> bool:
    """Whether the class of a function has both gains and losses, which cancel: then its code was split or joined."""
    of, within = name.rpartition("::")[0], changes.get(("class", name.rpartition("::")[0]))
    if not of or within is None or within.within.leaves_zero:
        return False
    sizes = [
        changes[kind, one].within.estimate
        for kind, one in found
        if kind == "function" and one.rpartition("::")[0] == of
    ]
    largest = max(map(abs, sizes))
    return min(sizes) < 0 < max(sizes) and abs(within.within.estimate) < _CANCELS * largest


def _cores(rows: Sequence[Mapping[str, Any]], total: FleetChange) -> float | None:
    """The cores that one unit of the figure represents on the arm's hosts."""
    used = [row["cores"] for row in rows if row["kind"] == "total" and row["is_arm"]]
    return sum(used) / total.arm if used and None not in used and total.arm else None
