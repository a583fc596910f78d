"""Wall clock by category: what the CPU profile and the off-CPU stacks say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from folding.offcpu import fold_off_cpu
from ioflame.categories import Categories, read_categories
from ioflame.commands.ebpf_program import Shown
from ioflame.files import Files
from ioflame.offcpu import STATES, OffCpu, OffStack, WallClock, WallRow, read_off_cpu
from ioflame.run import Run
from ioflame.whole import write_json
from viz.flamegraph import FlamegraphOptions, write_flamegraph
from viz.frames import Stack
from viz.scales import scaled_weight
from viz.wallclock import off_cpu_table, wall_clock_table

__all__ = ("analyse_off_cpu", "show_off_cpu", "wall_clock")

_ON_CPU = "on-CPU"


def analyse_off_cpu(
    recording: Path,
    off: OffCpu,
    rules: str,
    *,
    title: str,
    subtitle: str = "",
    on_cpu: Categories | None = None,
    queries: float | None = None,
) -> tuple[WallClock, list[OffStack]]:
    """Folds and draws an off-CPU recording, and writes the wall clock; all beside it.

    rules: of the categories; on_cpu: the owner view of a CPU profile of the same workload, None where there is none;
    queries: within the off-CPU window
    """
    directory = recording.parent
    stacks = fold_off_cpu(recording, rules)
    _draw(stacks, off, title, subtitle, directory / Files.OFF_CPU_FLAMEGRAPH)
    clock = wall_clock(off, stacks, on_cpu, queries)
    write_json(directory / Files.WALL_CLOCK, clock)
    return clock, stacks


def show_off_cpu(run: Run) -> Shown:
    """Folds, draws and accounts the off-CPU window of a run; its tables, and what has to be said of it."""
    record = run.record
    window = next((window for window in record.windows if window.kind == "offcpu"), None)
    off = read_off_cpu(run.path(Files.OFF_CPU))
    profiled = run.path(Files.CATEGORIES).exists()
    clock, _ = analyse_off_cpu(
        run.path(Files.OFF_CPU_DATA),
        off,
        record.engine,
        title=f"off-CPU time: {record.workload}, {record.threads} thread{'s' * (record.threads != 1)}",
        subtitle=record.created,
        on_cpu=read_categories(run.directory) if profiled else None,
        queries=window.counters.queries if window is not None else None,
    )
    return Shown(off_cpu_table(off) + "\n" + wall_clock_table(clock), list(off.checks()))


def wall_clock(off: OffCpu, stacks: Sequence[OffStack], on_cpu: Categories | None, queries: float | None) -> WallClock:
    """The time of the threads that are not idle: on a CPU by the categories of `on_cpu`, off it by state and category.

    The CPU profile's shares are scaled to the time from switch-in to switch-out, in which its samples were taken.
    """
    idle = {thread.tid for thread in off.threads if thread.is_idle}
    busy = [thread for thread in off.threads if thread.tid not in idle]
    ran = sum(thread.ran_ns for thread in busy)
    known = [thread.cpu_ns for thread in busy if thread.cpu_ns is not None]

    def row(state: str, category: str, ns: int) -> WallRow:
        return WallRow(state, category, ns, ns / 1e3 / queries if queries else None)

    rows = []
    if on_cpu is not None and on_cpu.total_weight:
        shares = [(category.name, category.weight / on_cpu.total_weight) for category in on_cpu.rows]
        rows += [row(_ON_CPU, name, round(ran * share)) for name, share in shares if share]
    else:
        rows.append(row(_ON_CPU, "", ran))
    order = {category.name: place for place, category in enumerate(on_cpu.rows)} if on_cpu is not None else {}
    for state in STATES:
        # What could not be kept has no thread of its own.
        within = [s for s in stacks if s.state == state and (s.tid not in idle or "[lost stack]" in s.frames)]
        by_category: Counter[str] = Counter()
        for stack in within:
            by_category[stack.category] += stack.ns
        # In the order of the CPU's rows, or the heaviest first.
        categories = sorted(by_category, key=lambda name: (order.get(name, len(order)), -by_category[name]))
        rows += [row(state, name, by_category[name]) for name in categories if by_category[name]]
    return WallClock(
        elapsed_ns=sum(thread.life_ns for thread in busy),
        threads=len(busy),
        idle_ns=sum(thread.life_ns for thread in off.threads if thread.tid in idle),
        idle_threads=len(off.threads) - len(busy),
        ran_ns=ran,
        cpu_ns=sum(known) if len(known) == len(busy) else None,
        queries=queries,
        rows=rows,
    )


def _draw(stacks: Sequence[OffStack], off: OffCpu, title: str, subtitle: str, out: Path) -> None:
    """A tower for each state, in its colour."""
    drawn = [Stack((s.state, s.comm, *s.frames), s.ns, s.count, s.state, 0) for s in stacks if s.ns]
    if not drawn:
        return
    counted = f"{scaled_weight(off.off_ns, 'ns')} off the CPU of {scaled_weight(off.elapsed_ns, 'ns')} x thread"
    warnings = [f"{check.name}: {check.value}; {check.means}" for check in off.checks() if check.means]
    options = FlamegraphOptions(
        title=title,
        subtitle=", ".join(part for part in (counted, subtitle) if part),
        unit="ns",
        warnings=warnings,
        categories=list(STATES.items()),
    )
    write_flamegraph(drawn, options, out)
