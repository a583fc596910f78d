"""Log-linear histograms of durations: what the eBPF programs count and everybody else reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.ranges import Count

_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Histogram:
    """Durations in ns.

    count, sum_ns:     exact, not from the buckets
    least_ns, most_ns: the shortest and the longest; 0 where count is 0
    buckets:           (low, high, count), low inclusive, high exclusive, ascending; at most 1/32 wide
    """

    count: Count = 0
    sum_ns: Count = 0
    least_ns: Count = 0
    most_ns: Count = 0
    buckets: list[tuple[Count, Count, Count]] = field(default_factory=list)

    @property
    def mean_ns(self) -> float | None:
        return self.sum_ns / self.count if self.count else None

    def percentile(self, percent: float) -> float | None:
        """The value that `percent` of the durations do not exceed, in ns, linear within its bucket; None when empty.

        Never beyond `most_ns`, so that p99.99 of few durations is the longest of them.
        """
        total = sum(count for _, _, count in self.buckets)
        if not total:
            return None
        rank = percent / 100 * total
        seen = 0
        for low, high, count in self.buckets:
            if seen + count >= rank:
                value = low + (high - low) * (rank - seen) / count
                return min(max(value, self.least_ns), self.most_ns)
            seen += count
        return float(self.most_ns)

    def figures(self) -> dict[str, float | None]:
        """As columns of a table, with their units; no percentile where there is no duration."""
        percentiles = {f"p{percent:g}_ns": self.percentile(percent) for percent in _PERCENTILES}
        own = {"count": self.count, "sum_ns": self.sum_ns, "least_ns": self.least_ns, "most_ns": self.most_ns}
        return {**own, "mean_ns": self.mean_ns, **percentiles}
