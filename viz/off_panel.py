"""Where threads wait, on a page: states by thread group, the wall clock by category, and waits for a CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ioflame.offcpu import STATES, OffCpu, RunQueue, Thread, WallClock
from viz.axes import duration
from viz.histograms import Named, histograms, percentile_table
from viz.markup import figure, hue_class, svg_button, table, text
from viz.scales import percentages
from viz.wallclock import more_than

__all__ = ("STATE_HUES", "off_panel", "run_queue_panel", "wall_clock_panel")

ON_CPU = "on-CPU"
# The hues that the off-CPU flame graph gives the states, in their order; grey for what is no wait.
STATE_HUES = {**{name: place for place, name in enumerate(STATES)}, ON_CPU: -1}
_WAITS = {"woken": "wake-up to CPU", "preempted": "put off its CPU until it runs again", "started": "created to CPU"}
_NUMBER = re.compile(r"[-/:_#]?\d+$")
_WIDTH, _LEFT, _RIGHT, _ROW, _CHAR = 1000, 230, 12, 30, 6.4


@dataclass
class _Group:
    """Threads of one name, busy and idle ones apart; ns by state."""

    name: str
    threads: int = 0
    life_ns: int = 0
    ns: dict[str, int] = field(default_factory=dict)

    def add(self, thread: Thread) -> None:
        self.threads += 1
        self.life_ns += thread.life_ns
        for state, ns in ((ON_CPU, thread.ran_ns), *thread.off_ns.items()):
            self.ns[state] = self.ns.get(state, 0) + ns


def off_panel(off: OffCpu) -> str:
    """Bars and table of states."""
    groups = _groups(off.threads)
    if not groups:
        return '<p class="absent">No thread was seen in the off-CPU window.</p>'
    plot = (
        '<div class="wide scroll" tabindex="0" role="group" aria-label="states of threads">'
        f"{_draw(groups)}</div>{_legend(groups)}"
    )
    note = (
        f"Elapsed time x threads of the off-CPU window, {(off.end_ns - off.start_ns) / 1e9:.1f} s. "
        "Idle: on a CPU below 1 % of the time, and seldom woken. Threads whose names differ by a number are one group."
    )
    return figure("What threads spend their time on", plot, note, svg_button("states.svg")) + _states(off)


def _groups(threads: Sequence[Thread]) -> list[_Group]:
    found: dict[tuple[bool, str], _Group] = {}
    for thread in threads:
        bare = _NUMBER.sub("", thread.comm) or thread.comm
        key = (thread.is_idle, bare)
        found.setdefault(key, _Group(f"{bare}, idle" if thread.is_idle else bare)).add(thread)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], -found[key].life_ns))]


def _draw(groups: Sequence[_Group]) -> str:
    wide = _WIDTH - _LEFT - _RIGHT
    lines = []
    for place, group in enumerate(groups):
        y = place * _ROW + 4
        whole = group.life_ns or 1
        words = f"{group.name} ({group.threads} thread{'s' * (group.threads != 1)})"
        shown = words if len(words) <= 34 else f"{group.name[:20]}\u2026 ({group.threads})"
        lines.append(f'<text class="label end" x="{_LEFT - 8}" y="{y + 15}">{text(shown)}</text>')
        left = float(_LEFT)
        for state in (ON_CPU, *STATES):
            ns = group.ns.get(state, 0)
            if not ns:
                continue
            long = wide * ns / whole
            about = "runs on a CPU" if state == ON_CPU else STATES[state]
            hover = f"{state}: {100 * ns / whole:.2f} % of the group's time\n{words}\n{about}\n{duration(ns)}"
            title = "\n".join(text(line) for line in hover.split("\n"))
            lines.append(
                f'<rect class="{hue_class(STATE_HUES[state])} segment" x="{left:.2f}" y="{y}"'
                f' width="{max(long, 0.3):.2f}"'
                f' height="{_ROW - 8}"><title>{title}</title></rect>'
            )
            inside = f"{state} {100 * ns / whole:.1f} %"
            if long >= len(inside) * _CHAR + 6:
                lines.append(f'<text class="in mid" x="{left + long / 2:.1f}" y="{y + 15}">{text(inside)}</text>')
            left += long
    height = len(groups) * _ROW + 6
    told = "; ".join(
        f"{group.name}: "
        + ", ".join(f"{s} {100 * ns / (group.life_ns or 1):.1f} %" for s, ns in group.ns.items() if ns)
        for group in groups
    )
    return (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="states by thread group: {text(told)}"><rect class="page" width="{_WIDTH}" height="{height}"/>'
        f"{''.join(lines)}</svg>"
    )


def _legend(groups: Sequence[_Group]) -> str:
    used = [state for state in (ON_CPU, *STATES) if any(group.ns.get(state) for group in groups)]
    entries = (
        f'<span><i class="swatch {hue_class(STATE_HUES[state])}"></i>{text(state)}'
        f"{'' if state == ON_CPU else ': ' + text(STATES[state])}</span>"
        for state in used
    )
    return f'<div class="legend">{"".join(entries)}</div>'


def _states(off: OffCpu) -> str:
    elapsed = off.elapsed_ns or 1
    rows = [
        [ON_CPU, f"{off.ran_ns / 1e6:,.3f}", f"{100 * off.ran_ns / elapsed:.2f}", "-", "-", "switch-in to switch-out"]
    ]
    for state, about in STATES.items():
        total = off.states.get(state)
        if total is not None and total.ns:
            mean = f"{total.ns / total.count / 1e3:,.1f}" if total.count else "-"
            share = f"{100 * total.ns / elapsed:.2f}"
            rows.append([state, f"{total.ns / 1e6:,.3f}", share, f"{total.count:,}", mean, text(about)])
    whole = off.ran_ns + off.off_ns
    rows.append(["all", f"{whole / 1e6:,.3f}", f"{100 * whole / elapsed:.2f}", "", "", ""])
    heads = ["state", "ms", "% of time", "n", "mean, us", "what it is"]
    return figure("States of all threads", table(heads, rows, "numbers noted"))


def wall_clock_panel(clock: WallClock) -> str:
    """On-CPU and each state, split by category, in us per query where queries are known, else in ms."""
    queries = clock.queries if clock.queries else None

    def cost(ns: int) -> str:
        return f"{ns / 1e3 / queries if queries else ns / 1e6:,.3f}"

    groups = [(state, list(rows)) for state, rows in groupby(clock.rows, key=lambda row: row.state)]
    # Of the rows that add up, so that their printed digits do; a state's own sum is rounded by itself.
    shares = iter(percentages([*(row.ns for row in clock.rows), max(clock.unseen_ns, 0)]))
    rows = []
    for state, parts in groups:
        if len(parts) > 1:
            ns = sum(part.ns for part in parts)
            share = 100 * ns / clock.elapsed_ns if clock.elapsed_ns else 0.0
            rows.append([f"<b>{text(state)}</b>", "<b>all</b>", f"<b>{cost(ns)}</b>", f"<b>{share:.2f}</b>"])
        for part in parts:
            rows.append([text(state), text(part.category or "all"), cost(part.ns), next(shares)])
    unseen = next(shares)
    if abs(clock.unseen_ns) * 1000 > clock.elapsed_ns:
        rows.append(["not seen", "", cost(clock.unseen_ns), unseen])
    rows.append(["all", "", cost(clock.elapsed_ns), "100.00"])
    note = (
        f"Elapsed time x {clock.threads} thread{'s' * (clock.threads != 1)}; {clock.idle_threads} idle "
        f"thread{'s' * (clock.idle_threads != 1)} ({clock.idle_ns / 1e9:.3f} s) left out. "
        "On-CPU by the shares of the CPU profile, off-CPU by the stacks that waited."
    )
    if clock.cpu_ns is not None and clock.ran_ns:
        note += (
            f" schedstat says {clock.cpu_ns / 1e6:,.3f} ms on a CPU ({100 * (clock.cpu_ns / clock.ran_ns - 1):+.1f} %)"
        )
        note += ": it counts a thread woken on an idle CPU before it is switched in." if more_than(clock) else "."
    heads = ["wall clock", "category", "us/query" if queries else "ms", "%"]
    return figure("Wall clock by category, on and off the CPU", table(heads, rows, "numbers second-left"), note)


def run_queue_panel(queue: RunQueue) -> str:
    """Waits for a CPU: histograms and percentiles."""
    series = [
        Named(name, _WAITS.get(name, ""), wait)
        for name, wait in sorted(
            queue.waits.items(), key=lambda item: list(_WAITS).index(item[0]) if item[0] in _WAITS else len(_WAITS)
        )
    ]
    seconds = (queue.end_ns - queue.start_ns) / 1e9
    switches = queue.voluntary + queue.involuntary
    note = (
        f"Context switches: {queue.voluntary:,} voluntary, {queue.involuntary:,} involuntary "
        f"({switches / seconds if seconds else 0:,.0f}/s)."
    )
    return histograms("Waits for a CPU", series, "waits", "run-queue.svg", note) + percentile_table(
        "Waits for a CPU", series
    )
