"""The off-CPU window of a run: folded, drawn, and put beside its CPU profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from folding.offcpu import fold_off_cpu
from ground.results.categories import Categories, read_categories
from ground.results.files import Files
from ground.results.off_cpu import STATES, OffCpu, OffStack, WallClock, read_off_cpu
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.analysis.wall_clock import wall_clock
from ioflame.profile.rules import rules_of
from ioflame.profile.shown import Shown
from viz.flame.stacks import Stack
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.terminal.off_cpu import off_cpu_table, wall_clock_table
from viz.weights import scaled_weight

__all__ = ("analyse_off_cpu", "show_off_cpu")


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
        rules_of(run).categories,
        title=f"off-CPU time: {record.workload}, {record.threads} thread{'s' * (record.threads != 1)}",
        subtitle=record.created,
        on_cpu=read_categories(run.directory) if profiled else None,
        queries=window.counters.queries if window is not None else None,
    )
    return Shown(off_cpu_table(off) + "\n" + wall_clock_table(clock), list(off.checks()))


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
