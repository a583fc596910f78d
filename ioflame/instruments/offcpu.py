"""`offcpu`: where the threads of a process wait, by stack; and the wall clock, with the CPU profile beside it."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from markupsafe import Markup

from ebpf.backends import choose_backend
from ebpf.observer import CoreObserver, option_words
from folding.offcpu import fold_off_cpu, off_cpu_stacks
from ground.errors import RefusedError, UsageError
from ground.results.categories import Categories, read_categories
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.off_cpu import OffCpu, OffStack, WallClock, read_off_cpu, read_wall_clock
from ground.results.profile import read_profile
from ground.results.run import Run
from ground.results.states import STATES
from ground.system.atomic_files import write_json
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.ranges import within
from ioflame.analysis.categories import categories_of, category_file
from ioflame.analysis.wall_clock import serving_threads, wall_clock
from ioflame.instruments.instrument import Alone, Flame, Instrument, ObserverContext, Part, one_pid
from viz.flame.stacks import Stack
from viz.page.run_view import Graph, Observed, Panel, by_state
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.table import Block, Section
from viz.tables.off_cpu import off_cpu_section, stack_list, wall_clock_section
from viz.terminal.table import section_text
from viz.weights import scaled_weight
from workloads.registry import DEFAULT_ENGINE, Rules, rules_named

_HOTTEST = 8


def off_cpu_observer(
    children: Children, pid: int, out: Path, recording: Path, *, waker: bool = False, map_entries: int | None = None,
    turns: bool = False,
) -> CoreObserver:  # fmt: skip
    """Stacks of a process's threads by time off the CPU: `out` is the JSON (`OffCpu`), `recording` the stacks.

    HostError where the CO-RE programs do not run: bpftrace 0.17 loses kernel stacks, cannot show what a wait in a futex
    is for, and knows nothing of threads that are blocked all the time.

    waker: take the stack of whoever wakes a thread, too; map_entries: of every map (None: the program's own sizes);
    turns: take turns
    """
    choose_backend("co-re", "offcpu")
    arguments = option_words(pid=pid, recording=recording, waker=waker, map_entries=map_entries)
    what = "eBPF on sched_switch and sched_waking: stacks by time off the CPU"
    return CoreObserver("offcpu", what, children, arguments, out, turns=turns)


def _observer(context: ObserverContext) -> Observer:
    run, pid = context.run, context.pids[0]
    if run.record.target is not None:
        run.record.target.off_cpu_pid = pid
    out, recording = run.path(Files.OFF_CPU), run.path(Files.OFF_CPU_DATA)
    return off_cpu_observer(context.children, pid, out, recording, turns=context.turns)


def _analyse(run: Run, rules: Rules) -> list[Check]:
    """Folds the recording, and accounts the wall clock of the window, the CPU profile's categories with it."""
    record = run.record
    off = _result(run)
    working = {thread.tid for thread in off.threads if not thread.is_idle}
    background = working - {thread.tid for thread in serving_threads(off, record)}
    on_cpu = read_categories(run.directory) if run.path(Files.CATEGORIES).exists() else None
    if on_cpu is not None and background and not record.roles:
        profile = read_profile(run.path(Files.PROFILE))
        serving = {tid for tid in profile.threads.tid if tid is not None} - background
        on_cpu = categories_of(category_file(profile.of_threads(serving), "owner"))
    queries = record.queries_in("offcpu")
    _account(run.path(Files.OFF_CPU_DATA), off, rules.categories, on_cpu, queries, background)
    return list(off.checks())


def _account(
    recording: Path,
    off: OffCpu,
    rules: str,
    on_cpu: Categories | None = None,
    queries: float | None = None,
    background: Collection[int] = (),
) -> tuple[WallClock, list[OffStack]]:
    """Folds an off-CPU recording, and writes the wall clock; all beside it.

    rules: of the categories; on_cpu: the owner view of a CPU profile of the same workload, None where there is none;
    queries: within the off-CPU window; background: threads that serve none
    """
    stacks = fold_off_cpu(recording, rules)
    clock = wall_clock(off, stacks, on_cpu, queries, background)
    write_json(recording.with_name(Files.WALL_CLOCK), clock)
    return clock, stacks


def _result(run: Run) -> OffCpu:
    return read_off_cpu(run.path(Files.OFF_CPU))


def _section(run: Run) -> Section:
    return [*off_cpu_section(_result(run)), *wall_clock_section(read_wall_clock(run.path(Files.WALL_CLOCK)))]


def _svg(run: Run, rules: Rules) -> None:
    record = run.record
    title = f"off-CPU time: {record.workload}, {record.threads} thread{'s' * (record.threads != 1)}"
    recording = run.path(Files.OFF_CPU_DATA)
    _draw(off_cpu_stacks(recording, rules.categories), _result(run), title, record.created, recording.parent)


def _draw(stacks: Sequence[OffStack], off: OffCpu, title: str, subtitle: str, directory: Path) -> None:
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
    write_flamegraph(drawn, options, directory / Files.OFF_CPU_FLAMEGRAPH)


def _graph(rules: Rules, seen: Observed, recording: Path) -> Graph | None:
    from viz.page.flame_graphs import off_cpu_graph

    off, clock = seen.of(Files.OFF_CPU, OffCpu), seen.of(Files.WALL_CLOCK, WallClock)
    if off is None:
        return None
    idle = {thread.tid for thread in off.threads if thread.is_idle}
    stacks = by_state(off_cpu_stacks(recording, rules.categories), idle)
    return off_cpu_graph(stacks, clock.queries if clock is not None else None)


def _panel(seen: Observed) -> Markup:
    from viz.page.off_cpu import off_panel
    from viz.page.rendering import section_markup

    off, clock = seen.of(Files.OFF_CPU, OffCpu), seen.of(Files.WALL_CLOCK, WallClock)
    states = off_panel(off) if off is not None else Markup("")
    return states + section_markup(wall_clock_section(clock) if clock is not None else [])


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--waker", action="store_true", help="take the stack of whoever wakes a thread, too")
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="keep recording, folded stacks, flame graph and wall clock in DIR, which must be new or empty",
    )
    parser.add_argument("--map-entries", type=within("--map-entries", int, 1, 1 << 24), help=argparse.SUPPRESS)


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    directory: Path = arguments.dir.resolve() if arguments.dir is not None else out.parent
    if arguments.dir is not None:
        _make_empty(directory)
    recording = directory / Files.OFF_CPU_DATA
    pid = one_pid(arguments)
    return off_cpu_observer(children, pid, out, recording, waker=arguments.waker, map_entries=arguments.map_entries)


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(
                f"--dir {directory} is not empty", means="its files would be overwritten", mend="another name"
            )
    except OSError as error:
        raise RefusedError(f"--dir {directory}: {error.strerror}", mend="--dir <a new directory>") from None


def _show(path: Path) -> tuple[str, list[Check]]:
    off = read_off_cpu(path)
    assert off.recording is not None
    recording = Path(off.recording)
    clock, stacks = _account(recording, off, rules_named(DEFAULT_ENGINE).categories)
    _draw(stacks, off, f"off-CPU time of pid {off.pid}", "", recording.parent)
    busy = {thread.tid for thread in off.threads if not thread.is_idle}
    section: list[Block] = [
        *off_cpu_section(off),
        *wall_clock_section(clock),
        "\nlongest waits of threads that are not idle:",
        stack_list([stack for stack in stacks if stack.tid in busy], _HOTTEST),
    ]
    if recording.parent != path.parent:
        kept = (Files.OFF_CPU_FLAMEGRAPH, Files.OFF_CPU_FOLDED, Files.OFF_CPU_DATA, Files.WALL_CLOCK)
        names = ", ".join(name for name in kept if (recording.parent / name).exists())
        section.append(f"\nin {recording.parent}: {names}")
    return section_text(section), list(off.checks())


INSTRUMENT = Instrument(
    "offcpu",
    order=4,
    observer=_observer,
    result=Files.OFF_CPU,
    reads={Files.OFF_CPU: read_off_cpu, Files.WALL_CLOCK: read_wall_clock},
    analyse=_analyse,
    parts={"waits": Part("what the threads wait for, and the wall clock", Files.OFF_CPU, _section)},
    panels=[Panel("Off the CPU", "offcpu", 3, [Files.OFF_CPU, Files.WALL_CLOCK], _panel)],
    flame=Flame(Files.OFF_CPU_DATA, _svg, _graph),
    alone=Alone(
        "where the threads of a process wait, by stack: storage, locks, conditions, joins, run-queue wait",
        _add_arguments,
        _alone,
        _show,
    ),
    profile=(Files.OFF_CPU_PROFILE, ("off-cpu", "ns")),
    by_default=True,
    one_process=True,
    takes_turns=True,
)
