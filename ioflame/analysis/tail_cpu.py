"""The time on the CPU of slow and of median queries by category: how long is exact, on what is sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from folding.wait_places import WaitPlace, place_of
from ground.results.query_records import ON_CPU, QueryRecord
from ground.results.tail import LEAST_SAMPLES, CpuRow
from ioflame.analysis.tail_groups import MEDIAN, SLOW, Bounds, GroupSums, Sums

RUNNING = "on_cpu"
_ALL = "samples"


@dataclass(frozen=True)
class Undisturbed:
    """How long sampled queries had been without their samples, so that they fall into the groups that they belong to:
    an interrupt takes as long as a whole query that finds its block in a cache.

    each_ns: that a sample takes. slow: ns, from which on a query is long beside that
    """

    each_ns: float
    slow: int

    @classmethod
    def of(cls, counted: Iterable[tuple[QueryRecord, float]], sampled: Iterable[QueryRecord], slow: int) -> Undisturbed:
        """Samples fall into queries in proportion to their time on the CPU: the median duration weighted by that, and
        the median of what was sampled, differ by what a sample takes. Where most of these have several samples a query
        is long beside one, and nothing is taken off."""
        shorter = [(record.ns, weight * record.parts[ON_CPU]) for record, weight in counted if record.ns < slow]
        short = [record for record in sampled if record.sampled and record.ns < slow]
        once = [(record.ns, 1.0) for record in short if record.sampled == 1]
        if not shorter or 2 * len(once) <= len(short):
            return cls(0.0, slow)
        return cls(max(0.0, _median(once) - _median(shorter)), slow)

    def ns(self, record: QueryRecord) -> int:
        return record.ns if record.ns >= self.slow else round(record.ns - self.each_ns * record.sampled)


@dataclass(frozen=True)
class CpuSplit:
    """rows: the largest first, none where samples are too few; samples: of both groups

    undisturbed: as it was taken off. disturbed: with it a group had too few samples, so nothing was taken off
    """

    rows: list[CpuRow]
    samples: tuple[int, int]
    undisturbed: Undisturbed
    disturbed: bool


def _median(weighted: Iterable[tuple[int, float]]) -> float:
    ordered = sorted(weighted)
    half, reached = sum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    return 0.0


def cpu_rows(
    counted: Sequence[tuple[QueryRecord, float]],
    sampled: Sequence[QueryRecord],
    places: Mapping[int, WaitPlace],
    bounds: Bounds,
) -> CpuSplit:
    """The time on the CPU by category.

    counted: records with their weights; sampled: all in which a sample fell, whatever else they were kept for
    """
    undisturbed = Undisturbed.of(counted, sampled, bounds.slow)
    found = _split(counted, sampled, undisturbed, places, bounds)
    if found.rows or not undisturbed.each_ns:
        return found
    # On a busy host what a sample takes is not what durations differ by.
    as_seen = _split(counted, sampled, Undisturbed(0.0, bounds.slow), places, bounds)
    return replace(as_seen, disturbed=True) if as_seen.rows else found


def _split(
    counted: Sequence[tuple[QueryRecord, float]],
    sampled: Sequence[QueryRecord],
    undisturbed: Undisturbed,
    places: Mapping[int, WaitPlace],
    bounds: Bounds,
) -> CpuSplit:
    sums = GroupSums(bounds)
    for record, weight in counted:
        sums.add(record.ns, record.end_ns, {"queries": weight, "on_cpu": weight * record.parts[ON_CPU]})
    owners = set()
    for record in sampled:
        kept = list(record.samples)
        for sample in kept:
            owner = place_of(places, sample.place, RUNNING).owner
            owners.add(owner)
            # At most 8 samples of a query are kept: they represent the others.
            weight = record.sampled / len(kept)
            sums.add(undisturbed.ns(record), record.end_ns, {_ALL: weight, f"of {owner}": weight})
    samples = (round(sums.total(SLOW, _ALL)), round(sums.total(MEDIAN, _ALL)))
    if min(samples) < LEAST_SAMPLES:
        return CpuSplit([], samples, undisturbed, disturbed=False)
    found = sums.compare({owner: _us_of(owner) for owner in sorted(owners)})
    rows = [CpuRow(owner, one.slow, one.median, one.gap) for owner, one in found.items() if one.slow or one.median]
    return CpuSplit(sorted(rows, key=lambda row: -row.tail_us), samples, undisturbed, disturbed=False)


def _us_of(owner: str) -> Callable[[Sums], float]:
    def us(of: Sums) -> float:
        queries, samples = of("queries"), of(_ALL)
        return of("on_cpu") / queries * of(f"of {owner}") / samples / 1e3 if queries and samples else 0.0

    return us
