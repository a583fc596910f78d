"""What of a profile's weight the hypervisor may have stolen, and how far that moves the share of a category.

A timer event (`cpu-clock`) counts time, not work: a sample covers the time since the one before, even where the
hypervisor had the CPU in between. No sample shows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.results.categories import Categories
from ground.results.checks import Check, Verdict
from ground.results.profile import Slices
from ground.results.record import RunRecord, Window
from ground.settings import Setting
from ground.text.titles import title_of

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


def stolen_of(record: RunRecord) -> int:
    """The most of the profile's weight that can be stolen time; 0 where that is next to nothing, or no sample can hold
    it."""
    profile = record.profile
    if profile is None or not profile.weight or profile.coverage is None:  # only a weight in ns has a coverage
        return 0
    # An interrupted run has samples of the turn that was cut, and no window that says what ran in it.
    ran = profile.weight if record.missing else profile.weight / profile.coverage
    stolen = stolen_weight(profile.weight, ran, _stolen_ns(record))
    return stolen if stolen > _LITTLE * profile.weight else 0


def _stolen_ns(record: RunRecord) -> int:
    return sum(window.counters.steal_ns for window in record.windows if window.kind == "perf")


def quiet_slices(slices: Slices, series: Sequence[Window]) -> list[int]:
    """The slices of the profile in which the hypervisor took nothing, by the counters of every second they touch.

    series: the windows by second, on the clock of the slices. A slice that no second of a perf window touches is
    unknown, and not among them.
    """
    seconds = [window for window in series if window.kind == "perf"]
    found = []
    for number in range(max(slices.slice, default=-1) + 1):
        begin = slices.start_ns + number * slices.length_ns
        touched = [s for s in seconds if s.start_ns < begin + slices.length_ns and s.end_ns > begin]
        if touched and not any(second.counters.steal_ns for second in touched):
            found.append(number)
    return found


def stolen_checks(
    record: RunRecord, series: Sequence[Window], categories: Categories | None, slices: Slices | None
) -> Iterator[Check]:
    """What each category's share may really be; nothing where next to nothing was stolen, or no sample can hold it.

    series: the windows by second; categories: the owner view; slices: of the profile, None where it has none
    """
    rows = categories.rows if categories is not None else []
    profile, stolen, stolen_ns = record.profile, stolen_of(record), _stolen_ns(record)
    if profile is None or not stolen:
        return
    seconds = [window for window in series if window.kind == "perf"]
    hit = sum(window.counters.steal_ns > 0 for window in seconds)
    where = f", in {hit} of its {len(seconds)} seconds" if hit else ""
    samples = f"samples may hold {stolen / 1e9:.2f} s of it"
    if stolen > stolen_ns:
        samples = f"samples hold {stolen / 1e9:.2f} s more than the scheduler counted as run"
    # Of the threads that the view is of, which are all of them where nothing writes.
    whole = sum(row.weight for row in rows)
    bounds = ((row.name, *share_bounds(row.weight, whole, stolen)) for row in rows if row.weight)
    words = ", ".join(f"{title_of(name)} {100 * low:.1f}..{100 * high:.1f} %" for name, low, high in bounds)
    means = "true shares are not known exactly"
    if words:
        means += f": they lie between {words} (`steal` in the tables)"
    if categories is not None and slices is not None:
        means += _quiet_shares(categories, quiet_slices(slices, series))
    yield Check(
        "stolen samples",
        Verdict.WARN,
        f"the hypervisor took {stolen_ns / 1e9:.2f} s in the perf window{where}; {samples}, "
        f"{stolen / profile.weight:.1%} of the weight",
        means,
        f"run it again on a quieter host, or one with a cycles counter ({Setting.EVENT.to('cycles')})",
    )


def _quiet_shares(categories: Categories, quiet: Sequence[int]) -> str:
    """The shares with every second left out in which something was stolen."""
    sums = [sum(categories.slices[number][place] for number in quiet) for place in range(len(categories.rows))]
    total = sum(sums)
    if not total:
        return "; no second of the profile is known to be without steal"
    shares = (f"{row.name} {100 * own / total:.1f} %" for row, own in zip(categories.rows, sums, strict=True) if own)
    return f"; in the {len(quiet)} of {len(categories.slices)} seconds without steal: {', '.join(shares)}"
