"""Where threads wait, on a page: states by thread group, and waits for a CPU."""

from __future__ import annotations

from markupsafe import Markup

from ground.results.off_cpu import OffCpu, RunQueue
from ground.results.states import STATES
from ground.text.titles import title_of
from viz.page.latency_plots import histograms
from viz.page.rendering import absent, plot_figure, section_markup
from viz.svg.histogram import Named
from viz.svg.thread_states import ON_CPU, STATE_HUES, thread_groups, thread_states
from viz.tables.off_cpu import WAITS, off_cpu_section, run_queue_section, states_of_working


def off_panel(off: OffCpu) -> Markup:
    """Bars and table of states of the threads that work; those that do not are named."""
    _, working, idle = states_of_working(off)
    if not working:
        return absent("No thread was seen in the off-CPU window.")
    groups = thread_groups(working)
    legend = (
        f"Elapsed time x threads of the off-CPU window, {off.seconds:.1f} s. "
        "Threads whose names differ by a number are one group."
    )
    if idle:
        named = ", ".join(f"{group.threads} {group.name}" for group in thread_groups(idle))
        legend += (
            f" Left out: {len(idle)} idle thread{'s' * (len(idle) != 1)}, waiting for work 99 % of the time "
            f"and rarely running ({named})."
        )
    entries = [
        (STATE_HUES[state], state if state == ON_CPU else f"{title_of(state)}: {STATES[state]}")
        for state in (ON_CPU, *STATES)
        if any(group.ns.get(state) for group in groups)
    ]
    plot = thread_states(groups)
    title = "What threads spend their time on"
    figure = plot_figure(title, plot, "states.svg", legend, "states of threads", entries)
    return figure + section_markup(off_cpu_section(off))


def run_queue_panel(queue: RunQueue) -> Markup:
    """Run-queue waits: histograms and percentiles."""
    series = [Named(about, "", queue.waits[name]) for name, about in WAITS.items() if name in queue.waits]
    return histograms("Run-queue waits by length", series, "waits", "run-queue.svg") + section_markup(
        run_queue_section(queue)
    )
