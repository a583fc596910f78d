"""Where threads wait, on a page: states by thread group, the wall clock by category, and waits for a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from ground.results.off_cpu import OffCpu, RunQueue, Thread, WallClock
from ground.results.states import STATES
from viz.figures import StateTime, left_out, schedstat_is_above, states_of_working
from viz.page.latency_plots import histograms, percentile_table
from viz.page.rendering import absent, plot_figure, table
from viz.svg.elements import element
from viz.svg.histogram import Named
from viz.svg.thread_states import ON_CPU, STATE_HUES, thread_groups, thread_states
from viz.weights import percentages

_WAITS = {"woken": "wake-up to CPU", "preempted": "put off its CPU until it runs again", "started": "created to CPU"}


def off_panel(off: OffCpu) -> Markup:
    """Bars and table of states of the threads that work; those that do not are named below."""
    states, working, idle = states_of_working(off)
    if not working:
        return absent("No thread was seen in the off-CPU window.")
    groups = thread_groups(working)
    legend = (
        f"Elapsed time x threads of the off-CPU window, {(off.end_ns - off.start_ns) / 1e9:.1f} s. "
        "Threads whose names differ by a number are one group."
    )
    if idle:
        named = ", ".join(f"{group.threads} {group.name}" for group in thread_groups(idle))
        legend += (
            f" Left out: {len(idle)} idle thread{'s' * (len(idle) != 1)}, waiting for work 99 % of the time "
            f"and seldom woken ({named})."
        )
    entries = [
        (STATE_HUES[state], state if state == ON_CPU else f"{state}: {STATES[state]}")
        for state in (ON_CPU, *STATES)
        if any(group.ns.get(state) for group in groups)
    ]
    plot = thread_states(groups)
    title = "What threads spend their time on"
    figure = plot_figure(title, plot, "states.svg", legend, "states of threads", entries)
    return figure + _states(states, working)


def _states(states: Sequence[StateTime], working: Sequence[Thread]) -> Markup:
    ran = sum(thread.ran_ns for thread in working)
    elapsed = sum(thread.life_ns for thread in working) or 1
    rows = [[ON_CPU, f"{ran / 1e6:,.3f}", f"{100 * ran / elapsed:.2f}", "-", "-", "switch-in to switch-out"]]
    for one in states:
        if one.ns:
            mean = f"{one.ns / one.count / 1e3:,.1f}" if one.count else "-"
            count = "-" if one.count is None else f"{one.count:,}"
            share = f"{100 * one.ns / elapsed:.2f}"
            rows.append([one.state, f"{one.ns / 1e6:,.3f}", share, count, mean, STATES[one.state]])
    whole = ran + sum(one.ns for one in states)
    rows.append(["all", f"{whole / 1e6:,.3f}", f"{100 * whole / elapsed:.2f}", "", "", ""])
    heads = ["state", "ms", "% of time", "n", "mean, us", "what it is"]
    return table("States of the threads that work", heads, rows, "numbers noted")


def wall_clock_panel(clock: WallClock) -> Markup:
    """On-CPU and each state, split by category, in us per query where queries are known, else in ms."""
    queries = clock.queries if clock.queries else None

    def cost(ns: int) -> str:
        return f"{ns / 1e3 / queries if queries else ns / 1e6:,.3f}"

    groups = [(state, list(rows)) for state, rows in groupby(clock.rows, key=lambda row: row.state)]
    # Of the rows that add up, so that their printed digits do; a state's own sum is rounded by itself.
    shares = iter(percentages([*(row.ns for row in clock.rows), max(clock.unseen_ns, 0)]))
    rows: list[list[str]] = []
    for state, parts in groups:
        if len(parts) > 1:
            ns = sum(part.ns for part in parts)
            share = 100 * ns / clock.elapsed_ns if clock.elapsed_ns else 0.0
            rows.append([element("b", cell) for cell in (state, "all", cost(ns), f"{share:.2f}")])
        for part in parts:
            rows.append([state, part.category or "all", cost(part.ns), next(shares)])
    unseen = next(shares)
    if abs(clock.unseen_ns) * 1000 > clock.elapsed_ns:
        rows.append(["not seen", "", cost(clock.unseen_ns), unseen])
    rows.append(["all", "", cost(clock.elapsed_ns), "100.00"])
    note = (
        f"Elapsed time x {clock.threads} thread{'s' * (clock.threads != 1)}; {clock.idle_threads} idle "
        f"thread{'s' * (clock.idle_threads != 1)} ({clock.idle_ns / 1e9:.3f} s) left out. "
        "On-CPU by the shares of the CPU profile, off-CPU by the stacks that waited."
    )
    if clock.background_threads:
        note += f" {left_out(clock.background_threads, clock.background_ns, 'background', 'they serve no query')}."
    if clock.cpu_ns is not None and clock.ran_ns:
        note += (
            f" schedstat says {clock.cpu_ns / 1e6:,.3f} ms on a CPU ({100 * (clock.cpu_ns / clock.ran_ns - 1):+.1f} %)"
        )
        note += (
            ": it counts a thread woken on an idle CPU before it is switched in." if schedstat_is_above(clock) else "."
        )
    heads = ["wall clock", "category", "us/query" if queries else "ms", "%"]
    return table("Wall clock by category, on and off the CPU", heads, rows, "numbers second-left", note)


def run_queue_panel(queue: RunQueue) -> Markup:
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
    found = histograms("Waits for a CPU", series, "waits", "run-queue.svg", note)
    return found + percentile_table("Waits for a CPU", series)
