"""The time line of a run: QPS second by second, with the windows shaded.

The engine's report counts seconds from its own start; windows are on the clock of the host. The two are laid over each
other by what the windows counted: the shift at which the report gives every window its number of queries. Where no
shift does within 1 %, the windows are not drawn and the plot says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ioflame.run import Window
from viz.markup import text

__all__ = ("align", "read_rates", "timeline")

_WIDTH, _HEIGHT = 1000, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 26, 34
_WORST = 0.01


def read_rates(report: str) -> list[int]:
    """Queries of each second, from the text of db_bench's report; lines that are cut short end it."""
    rates = []
    for line in report.splitlines()[1:]:
        fields = line.split(",")
        if len(fields) < 2 or not fields[1].strip().isdigit():
            break
        rates.append(int(fields[1]))
    return rates


def align(rates: Sequence[int], windows: Sequence[Window]) -> tuple[float, float] | None:
    """The second of the report at which the first window begins, and the worst relative miss of a window's count."""
    counted = [(w, w.counters.queries) for w in windows if w.counters.queries]
    if not counted or not rates:
        return None
    origin = windows[0].start_ns
    sums = [0, *accumulate(rates)]

    def at(second: float) -> float | None:
        if not 0 <= second <= len(rates):
            return None
        whole = min(int(second), len(rates) - 1)
        return sums[whole] + (second - whole) * rates[whole]

    def miss(shift: float) -> tuple[float, float] | None:
        squares = worst = 0.0
        for window, queries in counted:
            first = at(shift + (window.start_ns - origin) / 1e9)
            last = at(shift + (window.end_ns - origin) / 1e9)
            if first is None or last is None:
                return None
            off = (last - first) / queries - 1
            squares += off * off
            worst = max(worst, abs(off))
        return squares, worst

    best: tuple[float, float, float] | None = None
    for step in range(20 * len(rates)):
        found = miss(step / 20)
        if found is not None and (best is None or found[0] < best[1]):
            best = (step / 20, *found)
    return None if best is None else (best[0], best[2])


def timeline(rates: Sequence[int], windows: Sequence[Window]) -> tuple[str, str]:
    """The plot as inline SVG, and what has to be said about it."""
    seconds = max(len(rates), 1)
    top = _nice(max(rates, default=0) or 1)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(second: float) -> float:
        return _LEFT + wide * second / seconds

    def y(rate: float) -> float:
        return _TOP + high * (1 - rate / top)

    lines = []
    found = align(rates, windows)
    if found is not None and found[1] <= _WORST:
        note = (
            "Windows are laid over the engine's seconds by the queries each counted; "
            f"the worst of them is {found[1]:.2%} off."
        )
        taken = 0.0  # up to where the upper row of labels is written
        for window in windows:
            begin = found[0] + (window.start_ns - windows[0].start_ns) / 1e9
            end = begin + window.seconds
            row = 0 if x(begin) >= taken else 1
            taken = max(taken, x(begin) + 8 * len(window.kind)) if not row else taken
            lines.append(
                f'<rect class="window {text(window.kind)}" x="{x(begin):.1f}" y="{_TOP}"'
                f' width="{x(end) - x(begin):.1f}" height="{high}"/>'
                f'<text class="label" x="{x(begin) + 3:.1f}" y="{_TOP - 8 + 21 * row}">{text(window.kind)}</text>'
            )
    else:
        note = "The windows are not drawn: their counts do not fit the engine's seconds at any shift."
    for part in range(5):
        value = top * part / 4
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            f'<text class="tick end" x="{_LEFT - 6}" y="{y(value) + 4:.1f}">{value:,.0f}</text>'
        )
    every = max(1, round(seconds / 10))
    for second in range(0, seconds + 1, every):
        lines.append(f'<text class="tick mid" x="{x(second):.1f}" y="{_HEIGHT - 18}">{second}</text>')
    points = " ".join(f"{x(i + 0.5):.1f},{y(rate):.1f}" for i, rate in enumerate(rates))
    lines.append(f'<polyline class="line" points="{points}"/>')
    lines.append(f'<text class="tick mid" x="{_LEFT + wide / 2}" y="{_HEIGHT - 4}">seconds of the engine</text>')
    lines.append(f'<text class="tick" x="4" y="{_TOP - 8}">QPS</text>')
    words = f"QPS by second, {min(rates, default=0):,} to {max(rates, default=0):,} over {len(rates)} seconds"
    svg = (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{text(words)}"><rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>{"".join(lines)}</svg>'
    )
    return svg, note


def _nice(value: float) -> float:
    """The least of 1, 1.2, 1.6, 2, 2.4, 4, 6, 8 times a power of ten that is not below `value`."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if power * step >= value)
