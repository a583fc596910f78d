"""What a page and a terminal say of the slowest queries: the first sentence, and figures with their intervals."""

from __future__ import annotations

from ground.results.interval import Interval
from ground.results.tail import LEAST_SAMPLES, Tail, TailRow

BESIDE_WORDS = "requests: when a query's first one was handed to the device; a larger figure is no cause"
# Rows of a smaller share are not named in the sentence, and no more than so many are.
_LEAST_SHARE = 0.1
_NAMED = 2
_PHRASES = {
    "on-CPU": "on the CPU",
    "run queue": "in the run queue",
    "IO limit": "held back by an IO limit",
    "block queue": "in the block queue",
    "device": "the device",
    "wake-up": "between the end of a request and the wake-up",
    "device, for another thread": "the device, for another thread's request",
    "IO, unknown": "waiting for IO of unknown origin",
    "page fault": "page faults",
    "lock": "waiting for a lock",
    "condition": "waiting for a condition",
    "sleep": "asleep",
}


def first_sentence(tail: Tail) -> str:
    """What the slow queries take more than the median ones, and the largest parts of that. It names no cause."""
    who = slow_words(tail)
    if tail.gap is None:
        return f"{who} take {shown_us(tail.tail.mean_us)}, the median {shown_us(tail.median.mean_us)}"
    largest = sorted(
        (row for row in tail.rows if row.gap is not None and row.gap.leaves_zero and (row.share or 0) >= _LEAST_SHARE),
        key=lambda row: -(row.share or 0),
    )
    parts = [f"{_with_interval(row.gap)} of it {_phrase(row)}" for row in largest[:_NAMED] if row.gap is not None]
    told = ", ".join(parts) if parts else "no single part of it is significant"
    return f"{who} take {shown_us(tail.gap.estimate)} more than the median: {told}"


def slow_words(tail: Tail) -> str:
    """The slow group: `the slowest 1 %`, or `queries of 500 us and more (0.8 %)`."""
    share = percent_of(1 - tail.threshold.quantile)
    return f"queries of {shown_us(tail.threshold.ns / 1e3)} and more ({share})" if tail.threshold.asked else (
        f"the slowest {share}"
    )  # fmt: skip


def group_words(tail: Tail) -> tuple[str, str]:
    """What each group is: its durations, and how many records it rests on."""
    threshold, slow, median = tail.threshold, tail.tail, tail.median
    interval = ""
    if threshold.low_ns != threshold.high_ns:
        interval = f" (95 % interval {_range(threshold.low_ns, threshold.high_ns)})"
    rank = "" if threshold.asked else f"p{100 * threshold.quantile:.4g}, "
    return (
        f"{rank}{shown_us(threshold.ns / 1e3)} and more{interval}: n {slow.records:,}, "
        f"{percent_of(tail.wall_share)} of the threads' time",
        f"p40 to p60, {_range(median.low_ns, median.high_ns)}: n {median.records:,}",
    )


def waker_words(row: TailRow) -> str:
    """Who ended the waits; "" where that is not told."""
    return f"{percent_of(row.waker[1])} of these waits ended by thread {row.waker[0]}" if row.waker is not None else ""


def samples_words(tail: Tail) -> str:
    slow, median = tail.cpu_samples
    words = f"{slow:,} in slow queries, {median:,} in median ones"
    return words + ("; disturbed: durations include what the samples took" if tail.cpu_disturbed else "")


def cpu_absent(tail: Tail) -> str:
    """Why the time on the CPU is not told by category."""
    few = min(tail.cpu_samples) < LEAST_SAMPLES
    why = f"{LEAST_SAMPLES} are needed; take a longer window" if few else "slow and median queries are not apart"
    return f"the time on the CPU is not split by category: {samples_words(tail)}, {why}"


def percent_of(share: float) -> str:
    """Three digits at most: 1 %, 0.83 %, 100 %."""
    return f"{100 * share:.3g} %"


def shown_us(us: float) -> str:
    """Two to three digits with a unit: 4.31 ms, 812 us, 1.2 s."""
    value, unit = _scaled(us)
    return f"{us / value:.3g} {unit}"


def _scaled(us: float) -> tuple[float, str]:
    return (1e6, "s") if abs(us) >= 999_500 else (1e3, "ms") if abs(us) >= 999.5 else (1.0, "us")


def _with_interval(gap: Interval) -> str:
    value, unit = _scaled(gap.estimate)
    digits = max(0, 2 - len(f"{abs(gap.estimate / value):.0f}"))
    figure, low, high = (f"{us / value:.{digits}f}" for us in (gap.estimate, gap.low, gap.high))
    return f"{figure} {unit} [{low}, {high}]"


def _range(low_ns: int, high_ns: int) -> str:
    """Of one unit: 181 to 204 us."""
    value, unit = _scaled(high_ns / 1e3)
    return f"{low_ns / 1e3 / value:.3g} to {high_ns / 1e3 / value:.3g} {unit}"


def _phrase(row: TailRow) -> str:
    words = _PHRASES.get(row.kind, row.kind)
    return words if row.name == row.kind else f"{words} ({row.name.removeprefix(f'{row.kind} ')})"


def gap_cells(gap: Interval | None) -> tuple[str, str]:
    """The difference and its interval; `-` where it is not known."""
    return ("-", "-") if gap is None else (f"{gap.estimate:+,.2f}", f"{gap.low:+,.2f} to {gap.high:+,.2f}")
