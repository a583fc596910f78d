"""Latency ladders as bars: a query's average by stage, one run below the other, on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ground.results.ladder import STAGES, Ladder, Rung
from ground.text.titles import title_of
from viz.svg.axes import linear_axis, us
from viz.svg.elements import element, label, path, plot

# Whose time a stage is, with its hue: told apart by colour-blind eyes, and named in the legend and each tooltip.
KINDS = {
    "engine": (0, "its own code"),
    "kernel": (2, "file system, read call, wake-up"),
    "device": (1, "block layer and device"),
    "wait": (3, "run-queue wait"),
}
_WAITS = ("runq",)
_At = Callable[[float], float]
_WIDTH, _LEFT, _RIGHT = 1000, 12, 60
_BAR, _CHAR = 34, 6.4
_HEAD, _BRACKETS, _LABELS = 26, 50, 15


@dataclass(frozen=True, slots=True)
class LadderRow:
    """name: of the run, "" where there is one alone; rx_lat_us: as in Observed"""

    name: str
    ladder: Ladder
    rx_lat_us: float | None


def kind_of(stage: str) -> str:
    return "wait" if stage in _WAITS else STAGES[stage].where


def ladder_plot(rows: Sequence[LadderRow]) -> Markup:
    """The bars; beside each the latency as the engine counts it and as the device does."""
    longest = max(max(r.ladder.total.mean_ns, r.ladder.cycle_ns, _rx_lat_ns(r)) for r in rows)
    # With reads of others in it io.lat can be many times a query: beyond twice its length the mark is cut.
    longest = max(longest, min(2 * longest, max(_device_at(r.ladder) + _io_lat_ns(r.ladder) for r in rows)))
    axis = linear_axis(0, longest * 1.02, _LEFT, _WIDTH - _RIGHT, 10)
    tops = [0.0]
    for row in rows:
        tops.append(tops[-1] + _HEAD + _BAR + _rows_of(_labels(row.ladder, axis.at)) * _LABELS + _BRACKETS + 10)
    bottom = tops[-1]
    drawn = []
    for tick in axis.ticks:
        x = axis.at(tick)
        drawn += [path("grid", f"M{x:.1f} {_HEAD - 4}V{bottom}"), label(f"{tick / 1e3:g}", x, bottom + 14, "tick mid")]
    drawn.append(label("us, average of a query", _WIDTH / 2, bottom + 30, "tick mid"))
    for place, row in enumerate(rows):
        drawn += _row(row, tops[place], axis.at)
    told = "; ".join(
        f"{row.name} {us(row.ladder.total.mean_ns)} us: ".lstrip()
        + ", ".join(f"{title_of(rung.name)} {us(rung.mean_ns)}" for rung in row.ladder.stages)
        for row in rows
    )
    return plot(_WIDTH, bottom + 36, f"latency ladder: {told}", *drawn)


def _rx_lat_ns(row: LadderRow) -> float:
    return (row.rx_lat_us if row.rx_lat_us is not None else row.ladder.seen_us) * 1e3


def _io_lat_ns(ladder: Ladder) -> float:
    """The device's own latency by diskstats; 0 where it is not known."""
    return ladder.device.await_ns or 0.0 if ladder.device is not None else 0.0


def _device_at(ladder: Ladder) -> float:
    """Where on the bar the block layer's stages begin, in ns of the query."""
    names = [rung.name for rung in ladder.stages]
    before = ladder.stages[: names.index("queue")] if "queue" in names else []
    return sum(rung.sum_ns for rung in before) / (ladder.total.count or 1)


def _rows_of(labels: Sequence[_Label]) -> int:
    return max((one.row + 1 for one in labels), default=0)


def _row(row: LadderRow, top: float, at: _At) -> list[Markup]:
    ladder = row.ladder
    total = ladder.total
    head = f"{row.name + ': ' if row.name else ''}query {us(total.mean_ns)} us, n {total.count:,}"
    drawn = [label(head, _LEFT, top + 15, "label strong")]
    bar = top + _HEAD
    begin = 0.0
    for rung in ladder.stages:
        end = begin + (rung.sum_ns / total.count if total.count else 0.0)
        drawn.append(_segment(rung, total, at(begin), at(end), bar))
        words = _words(rung)
        if at(end) - at(begin) >= len(words) * _CHAR + 6:
            drawn.append(label(words, at((begin + end) / 2), bar + _BAR / 2 + 4, "in mid"))
        begin = end
    labels = _labels(ladder, at)
    drawn += _draw_labels(labels, bar + _BAR)
    foot = bar + _BAR + _rows_of(labels) * _LABELS
    device = ladder.device
    if device is not None and device.await_ns is not None:
        told = f"disk latency of {device.name}: {us(device.await_ns)} (diskstats)"
        start = _device_at(ladder)
        drawn += _bracket("m-device", at(start), at(start + device.await_ns), foot + 8, told)
    rx_lat = _rx_lat_ns(row)
    if rx_lat and ladder.start == "query":
        whose = "the engine's count" if row.rx_lat_us is not None else "the queries seen here"
        mixed = "" if ladder.finished == total.count else "; all queries, cache hits too"
        drawn += _bracket("m-engine", at(0), at(rx_lat), foot + 32, f"latency: {us(rx_lat)} ({whose}{mixed})")
    return drawn


def _segment(rung: Rung, total: Rung, left: float, right: float, top: float) -> Markup:
    step, kind = STAGES[rung.name], kind_of(rung.name)
    share = 100 * rung.sum_ns / total.sum_ns if total.sum_ns else 0.0
    h = rung.histogram
    hover = "\n".join([
        f"{title_of(rung.name)}: {step.start} \u2192 {step.end}",
        f"{step.about} ({kind})",
        f"avg {us(rung.mean_ns)} us, {share:.1f} % of the query",
        f"p50 {us(h.percentile(50))}, p99 {us(h.percentile(99))}, max {us(rung.most_ns)} us",
        f"n {rung.count:,}",
    ])  # fmt: skip
    return element(
        "rect", element("title", hover), class_=f"h{KINDS[kind][0]} segment", data_stage=title_of(rung.name),
        x=left, y=top, width=max(right - left, 0.3), height=_BAR,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Label:
    """The name of a stage too narrow for it: px of its leader and of its text, and how many rows below the bar."""

    leader: float
    begin: float
    words: str
    row: int


def _labels(ladder: Ladder, at: _At) -> list[_Label]:
    """From right to left, each right of its leader and below all that its text would run into: no leader is crossed."""
    placed: list[_Label] = []
    end = sum(rung.mean_ns for rung in ladder.stages)
    for rung in reversed(ladder.stages):
        begin = end - rung.mean_ns
        words = _words(rung)
        if at(end) - at(begin) < len(words) * _CHAR + 6:
            x = at((begin + end) / 2)
            left = min(x - 2, _WIDTH - len(words) * _CHAR)
            right = left + len(words) * _CHAR + 4
            row = max((one.row + 1 for one in placed if one.begin < right), default=0)
            placed.append(_Label(x, left, words, row))
        end = begin
    return placed


def _words(rung: Rung) -> str:
    return f"{title_of(rung.name)} {us(rung.mean_ns)}"


def _draw_labels(labels: Sequence[_Label], top: float) -> list[Markup]:
    drawn = []
    for one in labels:
        y = top + (one.row + 1) * _LABELS
        drawn.append(path("leader", f"M{one.leader:.1f} {top}V{y - 10:.1f}"))
        drawn.append(label(one.words, one.begin, y, "tick ink"))
    return drawn


def _bracket(kind: str, left: float, right: float, y: float, words: str) -> list[Markup]:
    """From `left` to `right`; an arrow at the end of the axis where the bracket extends beyond it."""
    end = _WIDTH - _RIGHT
    tip = f"M{right:.1f} {y - 4}v8" if right <= end else f"M{end - 6} {y - 4}l6 4l-6 4"
    right = min(right, end)
    line = f"M{left:.1f} {y - 4}v8M{left:.1f} {y}H{right:.1f}{tip}"
    wide = len(words) * _CHAR
    begin = max(2.0, min((left + right) / 2 - wide / 2, _WIDTH - wide - 2))
    return [path(f"bracket {kind}", line), label(words, begin, y + 15, "tick ink")]
