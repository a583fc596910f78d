"""The off-CPU window of a run: folded, drawn, and put beside its CPU profile."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from folding.offcpu import fold_off_cpu
from ground.results.categories import Categories, read_categories
from ground.results.files import Files
from ground.results.off_cpu import STATES, OffCpu, OffStack, Thread, WallClock, read_off_cpu
from ground.results.profile import read_profile
from ground.results.record import RunRecord
from ground.results.roles import query_role
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.analysis.categories import categories_of, category_file
from ioflame.analysis.wall_clock import wall_clock
from ioflame.stages.rules import rules_of
from ioflame.stages.shown import Shown
from viz.flame.stacks import Stack
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.terminal.off_cpu import off_cpu_table, wall_clock_table
from viz.weights import scaled_weight
from workloads.registry import engine_named, service_named

__all__ = ("analyse_off_cpu", "serving_threads", "show_off_cpu")


def serving_threads(off: OffCpu, record: RunRecord) -> list[Thread]:
    """Those whose waits are a query's: of its role where a workload writes, else all that work but the engine's own,
    and those that a service's rules know to serve none."""
    if record.roles:
        tids = record.roles.get(query_role(record.roles), [])
        return [one for one in off.threads if one.tid in tids]
    working = [one for one in off.threads if not one.is_idle]
    if record.target is not None:
        groups = [group.name for group in service_named(record.engine).group if group.background]
        own = {tid for name in groups for tid in record.target.groups.get(name, [])}
        return [one for one in working if one.tid not in own]
    background = tuple(engine_named(record.engine).about.background_threads)
    return [one for one in working if not one.comm.startswith(background)]


def analyse_off_cpu(
    recording: Path,
    off: OffCpu,
    rules: str,
    *,
    title: str,
    subtitle: str = "",
    on_cpu: Categories | None = None,
    queries: float | None = None,
    background: Collection[int] = (),
) -> tuple[WallClock, list[OffStack]]:
    """Folds and draws an off-CPU recording, and writes the wall clock; all beside it.

    rules: of the categories; on_cpu: the owner view of a CPU profile of the same workload, None where there is none;
    queries: within the off-CPU window; background: threads that serve none
    """
    directory = recording.parent
    stacks = fold_off_cpu(recording, rules)
    _draw(stacks, off, title, subtitle, directory / Files.OFF_CPU_FLAMEGRAPH)
    clock = wall_clock(off, stacks, on_cpu, queries, background)
    write_json(directory / Files.WALL_CLOCK, clock)
    return clock, stacks


def show_off_cpu(run: Run) -> Shown:
    """Folds, draws and accounts the off-CPU window of a run; its tables, and what has to be said of it."""
    record = run.record
    window = next((window for window in record.windows if window.kind == "offcpu"), None)
    off = read_off_cpu(run.path(Files.OFF_CPU))
    working = {thread.tid for thread in off.threads if not thread.is_idle}
    background = working - {thread.tid for thread in serving_threads(off, record)}
    on_cpu = read_categories(run.directory) if run.path(Files.CATEGORIES).exists() else None
    if on_cpu is not None and background and not record.roles:
        profile = read_profile(run.path(Files.PROFILE))
        serving = {tid for tid in profile.threads.tid if tid is not None} - background
        on_cpu = categories_of(category_file(profile.of_threads(serving), "owner"))
    clock, _ = analyse_off_cpu(
        run.path(Files.OFF_CPU_DATA),
        off,
        rules_of(run).categories,
        title=f"off-CPU time: {record.workload}, {record.threads} thread{'s' * (record.threads != 1)}",
        subtitle=record.created,
        on_cpu=on_cpu,
        background=background,
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
