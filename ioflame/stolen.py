"""What of a profile's weight the hypervisor may have stolen, and how far that moves the share of a category.

A timer event (`cpu-clock`) counts time, not work: a sample stands for the time since the one before, also where the
hypervisor had the CPU meanwhile. No sample says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioflame.categories import Category
from ioflame.checks import Check, Verdict
from ioflame.record import RunRecord, Window

__all__ = ("share_bounds", "stolen_checks", "stolen_weight")

# Of the weight; less moves no share by more than its own sampling does.
_LITTLE = 0.02


def stolen_weight(weight: int, cpu_ns: float, stolen_ns: int) -> int:
    """The most ns of `weight` that can be stolen time.

    weight: of the profile, ns; cpu_ns: what the scheduler counted as run in the same window; stolen_ns: what the
    hypervisor took in it, all CPUs together. What is stolen while others run is in no sample of ours, so `stolen_ns` is
    the most; but what is above `cpu_ns` did not run, whatever the hypervisor says: min(W, max(S, W - C)).
    """
    return int(min(weight, max(stolen_ns, weight - cpu_ns)))


def share_bounds(weight: int, total: int, stolen: int) -> tuple[float, float]:
    """Between which the share of a category of all time that really ran must be, 0..1.

    weight: of the category; total: of the profile; stolen: the most of the total that can be stolen time (X).
    Of w in W, x_c of X is stolen within the category: its true share is (w - x_c) / (W - X). Lowest where all that is
    stolen is the category's, max(0, w - X) / (W - X), and highest where none is, min(1, w / (W - X)). A smaller X lies
    within: both bounds move away from w / W as X grows.
    """
    if stolen >= total:
        return 0.0, 1.0
    ran = total - stolen
    return max(0.0, (weight - stolen) / ran), min(1.0, weight / ran)


def stolen_checks(record: RunRecord, series: Sequence[Window], rows: Sequence[Category]) -> Iterator[Check]:
    """What each category's share may really be; nothing where next to nothing was stolen, or no sample can hold it.

    series: the windows by second; rows: of the owner view
    """
    profile = record.profile
    if profile is None or not profile.weight or profile.coverage is None:  # only a weight in ns has a coverage
        return
    stolen_ns = sum(window.counters.steal_ns for window in record.windows if window.kind == "perf")
    stolen = stolen_weight(profile.weight, profile.weight / profile.coverage, stolen_ns)
    if stolen <= _LITTLE * profile.weight:
        return
    seconds = [window for window in series if window.kind == "perf"]
    hit = sum(window.counters.steal_ns > 0 for window in seconds)
    where = f", in {hit} of its {len(seconds)} seconds" if hit else ""
    bounds = ((row.name, *share_bounds(row.weight, profile.weight, stolen)) for row in rows if row.weight)
    words = ", ".join(f"{name} {100 * low:.1f}..{100 * high:.1f} %" for name, low, high in bounds)
    yield Check(
        "stolen samples",
        Verdict.WARN,
        f"the hypervisor took {stolen_ns / 1e9:.2f} s in the perf window{where}; samples may hold {stolen / 1e9:.2f} s "
        f"of it, {stolen / profile.weight:.1%} of the weight",
        "which ones is not known" + (f": of what really ran a category is {words}" if words else ""),
        "run it again on a quieter host, or one with a cycles counter (EVENT=cycles)",
    )
