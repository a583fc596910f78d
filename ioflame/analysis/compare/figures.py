"""The windows of a comparison, and ln(arm/base) of each block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ground.results.metrics import DECIDING, Metric
from ground.results.record import Window

# They keep the level that the plan was made for, and so does rx.lat, which is threads / qps. The rest are looked at
# because they are there: of these, what chance alone gives is taken out.
PLANNED = (*DECIDING, "rx.lat")


@dataclass(frozen=True)
class ArmWindow:
    """One window of one arm: its figures by name, as `metrics.window_metrics([window], threads)` gives them."""

    arm: str
    figures: Mapping[str, float]


# A session is its blocks in order; a block its windows in order of time. A dropped block is left out by the caller.
Session = Sequence[Sequence[ArmWindow]]


@dataclass(frozen=True)
class BlockLogs:
    """A block as the statistics see it.

    log:      mean ln(arm) - mean ln(base) over its windows
    places:   place of the arm and of the base in the block's order, 0 first; of AB BA: the base 0, the arm 1
    spread:   sum of squares and degrees of freedom of windows of one arm around their mean (for `Variances.window`)
    covariate: the same difference of logarithms of the covariate, where there is one
    """

    log: float
    places: tuple[int, int]
    spread: tuple[float, int] = (0.0, 0)
    covariate: float | None = None


def with_device_time(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures of a window with `device.lat`, readsPerQuery x io.lat, and `engine.lat`, which is rx.lat less that.

    Neither where nothing was read. No `engine.lat` where reads overlap (several in flight a query, readahead) so far
    that the device's time is above the query's: it is then not a part of it.
    """
    found = dict(figures)
    if "io.lat" in figures and "rx.lat" in figures:
        found["device.lat"] = figures["readsPerQuery"] * figures["io.lat"]
        if found["device.lat"] < figures["rx.lat"]:
            found["engine.lat"] = figures["rx.lat"] - found["device.lat"]
    return found


def block_logs(sessions: Sequence[Session], metric: Metric, base: str, arm: str) -> list[list[BlockLogs]]:
    """ln(arm/base) of each block that has both arms, session by session.

    ValueError, with the words for `not comparable`, where a figure is missing or not above zero.
    """
    return [
        [_of_block(block, metric, base, arm) for block in session if {base, arm} <= {window.arm for window in block}]
        for session in sessions
    ]


def geometric_mean(sessions: Sequence[Session], metric: str, arm: str) -> float | None:
    """Of a figure over all windows of an arm; None where one has none above zero."""
    values = [w.figures.get(metric, 0.0) for session in sessions for block in session for w in block if w.arm == arm]
    if not values or min(values) <= 0:
        return None
    return math.exp(_mean([math.log(value) for value in values]))


def _of_block(block: Sequence[ArmWindow], metric: Metric, base: str, arm: str) -> BlockLogs:
    order = list(dict.fromkeys(window.arm for window in block))
    ours, theirs = (_logs(block, metric, metric.figure, one) for one in (arm, base))
    spread = sum(sum((x - _mean(side)) ** 2 for x in side) for side in (ours, theirs))
    covariate = None
    if metric.covariate:
        of_arm, of_base = (_mean(_logs(block, metric, metric.covariate, one)) for one in (arm, base))
        covariate = of_arm - of_base
    places = (order.index(arm), order.index(base))
    return BlockLogs(_mean(ours) - _mean(theirs), places, (spread, len(ours) + len(theirs) - 2), covariate)


def _logs(block: Sequence[ArmWindow], metric: Metric, figure: str, arm: str) -> list[float]:
    logs = []
    for window in block:
        if window.arm != arm:
            continue
        value = window.figures.get(figure)
        if value is None:
            raise ValueError(f"{arm} has a window without {figure}: {metric.absent}")
        if not value > 0:
            raise ValueError(f"{figure} of {arm} is {value:g} in a window: a ratio needs figures above zero")
        logs.append(math.log(value))
    return logs


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def of_the_process(window: Window) -> Window:
    """The window with the process's part of the device's reads, by bytes: requests of others are taken to be as large.

    What a request took (io.lat, reqsz) stays that of all requests.
    """
    counters = window.counters
    part = counters.own_part
    if part == 1:
        return window
    own = replace(
        counters,
        storage_reads=round(counters.storage_reads * part),
        storage_read_bytes=round(counters.storage_read_bytes * part),
        storage_read_ms=round(counters.storage_read_ms * part),
    )
    return replace(window, counters=own)
