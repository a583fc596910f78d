"""Latency ladders as bars: a query's average by stage, one run below the other, on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioflame.ladder import STAGES, Ladder, Rung
from viz.axes import linear_axis, us
from viz.ladder import engine_latency_us, others_reads
from viz.markup import text

__all__ = ("KINDS", "LadderRow", "gap_words", "kind_of", "ladder_plot")

# Whose time a stage is, with its hue: told apart by colour-blind eyes, and named in the legend and each tooltip.
KINDS = {
    "engine": (0, "its own code"),
    "kernel": (2, "file system, read call, wake-up"),
    "device": (1, "block layer and device"),
    "wait": (3, "woken, and waiting for a CPU"),
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


def ladder_plot(rows: Sequence[LadderRow]) -> str:
    """The bars; beside each the latency as the engine counts it and as the device does."""
    longest = max(max(r.ladder.total.mean_ns, r.ladder.cycle_ns, _rx_lat_ns(r)) for r in rows)
    axis = linear_axis(0, longest * 1.02, _LEFT, _WIDTH - _RIGHT, 10)
    tops = [0.0]
    for row in rows:
        tops.append(tops[-1] + _HEAD + _BAR + _rows_of(_labels(row.ladder, axis.at)) * _LABELS + _BRACKETS + 10)
    bottom = tops[-1]
    lines = []
    for tick in axis.ticks:
        x = axis.at(tick)
        lines.append(f'<path class="grid" d="M{x:.1f} {_HEAD - 4}V{bottom}"/>')
        lines.append(f'<text class="tick mid" x="{x:.1f}" y="{bottom + 14}">{tick / 1e3:g}</text>')
    lines.append(f'<text class="tick mid" x="{_WIDTH / 2}" y="{bottom + 30}">us, average of a query</text>')
    for place, row in enumerate(rows):
        lines += _row(row, tops[place], axis.at)
    height = bottom + 36
    told = "; ".join(
        f"{row.name} {us(row.ladder.total.mean_ns)} us: ".lstrip()
        + ", ".join(f"{rung.name} {us(rung.mean_ns)}" for rung in row.ladder.stages)
        for row in rows
    )
    return (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="latency ladder: {text(told)}"><rect class="page" width="{_WIDTH}" height="{height}"/>'
        f"{''.join(lines)}</svg>"
    )


def gap_words(ladder: Ladder) -> str:
    """Of a query's time what neither the block layer nor the device has, and the largest part of it; markup."""
    device, total = ladder.device, ladder.total
    inside = sum(ladder.stage(name).mean_ns for name in ("queue", "device"))
    gap = total.mean_ns - inside
    parts = ladder.device_gap()
    if gap <= 0 or not parts:
        return ""
    first = parts[0]
    rest = ", ".join(f"{text(rung.name)} {us(rung.mean_ns)}" for rung in parts[1:])
    counted = ""
    if device is not None and device.await_ns is not None:
        others = others_reads(ladder)
        whose = f", with {others:,} reads of others in it" if others else ""
        counted = f" (io.lat of {text(device.name)}, by diskstats: {us(device.await_ns)} us{whose})"
    return (
        f"A query that reads takes <b>{us(total.mean_ns)} us</b>, of which block layer and device take "
        f"<b>{us(inside)} us</b>{counted}. The other {us(gap)} us, {100 * gap / total.mean_ns:.0f} % of the query, are "
        f"in no figure of the device. The largest part of them is <b>{text(first.name)}</b>, {us(first.mean_ns)} us "
        f"({100 * first.mean_ns / gap:.0f} %): {text(STAGES[first.name].about)}. Then {rest}."
    )


def _rx_lat_ns(row: LadderRow) -> float:
    return (row.rx_lat_us if row.rx_lat_us is not None else engine_latency_us(row.ladder)) * 1e3


def _rows_of(labels: Sequence[_Label]) -> int:
    return max((label.row + 1 for label in labels), default=0)


def _row(row: LadderRow, top: float, at: _At) -> list[str]:
    ladder = row.ladder
    total = ladder.total
    head = f"{row.name + ': ' if row.name else ''}query {us(total.mean_ns)} us, n {total.count:,}"
    lines = [f'<text class="label strong" x="{_LEFT}" y="{top + 15}">{text(head)}</text>']
    bar = top + _HEAD
    begin, device_at = 0.0, 0.0
    for rung in ladder.stages:
        if rung.name == "queue":
            device_at = begin
        end = begin + (rung.sum_ns / total.count if total.count else 0.0)
        lines.append(_segment(rung, total, at(begin), at(end), bar))
        words = _words(rung)
        if at(end) - at(begin) >= len(words) * _CHAR + 6:
            lines.append(
                f'<text class="in mid" x="{at((begin + end) / 2):.1f}" y="{bar + _BAR / 2 + 4}">{text(words)}</text>'
            )
        begin = end
    labels = _labels(ladder, at)
    lines += _draw_labels(labels, bar + _BAR)
    foot = bar + _BAR + _rows_of(labels) * _LABELS
    device = ladder.device
    if device is not None and device.await_ns is not None:
        told = f"io.lat of {device.name}: {us(device.await_ns)} (diskstats)"
        lines += _bracket("m-device", at(device_at), at(device_at + device.await_ns), foot + 8, told)
    rx_lat = _rx_lat_ns(row)
    if rx_lat and ladder.start == "query":
        whose = "the engine's count" if row.rx_lat_us is not None else "the queries seen here"
        mixed = "" if ladder.finished == total.count else "; all queries, cache hits too"
        lines += _bracket("m-engine", at(0), at(rx_lat), foot + 32, f"rx.lat: {us(rx_lat)} ({whose}{mixed})")
    return lines


def _segment(rung: Rung, total: Rung, left: float, right: float, top: float) -> str:
    step, kind = STAGES[rung.name], kind_of(rung.name)
    share = 100 * rung.sum_ns / total.sum_ns if total.sum_ns else 0.0
    h = rung.histogram
    words = [
        f"{rung.name}: {step.start} \u2192 {step.end}",
        f"{step.about} ({kind})",
        f"avg {us(rung.mean_ns)} us, {share:.1f} % of the query",
        f"p50 {us(h.percentile(50))}, p99 {us(h.percentile(99))}, max {us(rung.most_ns)} us",
        f"n {rung.count:,}",
    ]
    hover = "\n".join(words)
    return (
        f'<rect class="h{KINDS[kind][0]} segment" data-stage="{text(rung.name)}" x="{left:.2f}" y="{top}"'
        f' width="{max(right - left, 0.3):.2f}" height="{_BAR}"><title>{_lines(hover)}</title></rect>'
    )


def _lines(words: str) -> str:
    return "\n".join(text(line) for line in words.split("\n"))


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
            row = max((label.row + 1 for label in placed if label.begin < right), default=0)
            placed.append(_Label(x, left, words, row))
        end = begin
    return placed


def _words(rung: Rung) -> str:
    return f"{rung.name} {us(rung.mean_ns)}"


def _draw_labels(labels: Sequence[_Label], top: float) -> list[str]:
    lines = []
    for label in labels:
        y = top + (label.row + 1) * _LABELS
        lines.append(f'<path class="leader" d="M{label.leader:.1f} {top}V{y - 10:.1f}"/>')
        lines.append(f'<text class="tick ink" x="{label.begin:.1f}" y="{y:.1f}">{text(label.words)}</text>')
    return lines


def _bracket(kind: str, left: float, right: float, y: float, words: str) -> list[str]:
    line = f'<path class="bracket {kind}" d="M{left:.1f} {y - 4}v8M{left:.1f} {y}H{right:.1f}M{right:.1f} {y - 4}v8"/>'
    wide = len(words) * _CHAR
    begin = max(2.0, min((left + right) / 2 - wide / 2, _WIDTH - wide - 2))
    return [line, f'<text class="tick ink" x="{begin:.1f}" y="{y + 15}">{text(words)}</text>']
