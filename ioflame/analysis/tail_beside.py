"""What else was under way while slow queries ran, beside median ones: requests of the device, and background jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from ground.results.jobs import RunJobs
from ground.results.query_records import QueryRecord
from ground.results.tail import BesideRow
from ioflame.analysis.tail_groups import Bounds, GroupSums, Sums

_REQUESTS = {
    "reads_beside": ("other reads that the device had", "requests"),
    "writes_beside": ("writes that the device had", "requests"),
    "others_beside": ("flushes and discards that the device had", "requests"),
    "kib_beside": ("KiB of all these", "KiB"),
}
_QUERIES, _ASKING = "queries", "asking"


class Intervals:
    """Stretches of time, (begin, end) in ns, which may overlap."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(stretches)
        joined: list[tuple[int, int]] = []
        for begin, end in ordered:
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((begin, end))
        self._begins = [begin for begin, _ in joined]
        self._ends = [end for _, end in joined]

    def meets(self, begin: int, end: int) -> bool:
        place = bisect_right(self._ends, begin)
        return place < len(self._begins) and self._begins[place] < end


def job_stretches(recorded: RunJobs) -> dict[str, list[tuple[int, int]]]:
    """When jobs ran, by their kind: CLOCK_MONOTONIC, ns. One that had not ended ran as long as the log goes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for job in recorded.found.jobs:
        ended = job.end if job.end is not None else recorded.found.until
        stretch = (recorded.monotonic_ns(job.begin), recorded.monotonic_ns(ended))
        found.setdefault(job.kind, []).append(stretch)
    return found


def beside_rows(
    counted: Iterable[tuple[QueryRecord, float]], jobs: Mapping[str, Sequence[tuple[int, int]]], bounds: Bounds
) -> list[BesideRow]:
    """jobs: by what they are called, when they ran (CLOCK_MONOTONIC, ns); the others: of queries with requests of their
    own, when the first was handed to the device"""
    running = {name: Intervals(stretches) for name, stretches in jobs.items()}
    sums = GroupSums(bounds)
    for record, weight in counted:
        values = {_QUERIES: weight}
        first = record.first_request
        if first is not None:
            values |= {_ASKING: weight, **{name: weight * getattr(first, name) for name in _REQUESTS}}
        values |= {
            name: weight for name, stretches in running.items() if stretches.meets(record.begin_ns, record.end_ns)
        }
        sums.add(record.ns, record.end_ns, values)
    figures = {name: _mean(name, _ASKING) for name in _REQUESTS}
    figures |= {name: _mean(name, _QUERIES, 100.0) for name in running}
    words = _REQUESTS | {name: (f"while a {name} ran", "% of queries") for name in running}
    return [
        BesideRow(*words[name], one.slow, one.median, one.gap)
        for name, one in sums.compare(figures).items()
        if one.slow or one.median
    ]


def _mean(name: str, among: str, scale: float = 1.0) -> Callable[[Sums], float]:
    def mean(of: Sums) -> float:
        count = of(among)
        return scale * of(name) / count if count else 0.0

    return mean
