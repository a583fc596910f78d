"""`pmp`: every thread of a process by wall clock, and who waits for which lock: the poor man's profiler."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from collectors.pmp import Sampling, pmp_checks
from collectors.pmp_plan import PmpPlan
from folding.locks import lock_report, read_rules
from folding.pmp import fold_pmp, pmp_profile
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.results.pmp import Locks, Pmp, read_locks, read_pmp
from ground.results.run import Run, read_or_none
from ground.system.atomic_files import write_json
from ground.system.observer import Observer
from ioflame.instruments.instrument import Flame, Instrument, ObserverContext, Part
from viz.flame.stacks import by_name, stacks_of
from viz.page.run_view import Graph, Observed, Panel
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.table import Section
from viz.tables.pmp import locks_section, pmp_section
from viz.weights import scaled_weight
from workloads.registry import Rules


def _observer(context: ObserverContext) -> Observer:
    return Sampling(context.children, PmpPlan(), context.pids[0], context.run.directory, turns=context.turns)


def analyse(directory: Path, rules: Rules) -> tuple[Pmp, Locks]:
    """Folds what a sampling left in `directory`, and finds who waits for which lock; replaces its own outputs only."""
    profile = fold_pmp(directory, rules.categories)
    locks = lock_report(profile.each_stack("owner"), read_rules(rules.locks))
    write_json(directory / Files.LOCKS, locks)
    return read_pmp(directory), locks


def draw(directory: Path, rules: Rules) -> None:
    """`pmp.svg` of what `analyse` left in the directory."""
    pmp, profile = read_pmp(directory), pmp_profile(directory, rules.categories)
    options = FlamegraphOptions(
        title=f"wall clock of process {pmp.pid}, {len(pmp.threads)} threads",
        subtitle=f"{scaled_weight(pmp.weight_ns, 'ns')} of thread time in {pmp.samples:,} samples, {pmp.sampler}; "
        "the topmost frame is the thread's state",
        unit="ns",
        categories=profile.labels("owner"),
    )
    stacks = stacks_of(profile, "owner")
    write_flamegraph(by_name(stacks), options, directory / Files.PMP_FLAMEGRAPH)


def _pmp(run: Run) -> Section:
    return pmp_section(read_pmp(run.directory))


def _locks(run: Run) -> Section:
    return locks_section(read_locks(run.directory), read_pmp(run.directory))


def _checks(run: Run, rules: Rules) -> list[Check]:
    pmp, _ = analyse(run.directory, rules)
    return pmp_checks(pmp, read_or_none(run.path(Files.OFF_CPU), read_off_cpu))


def _graph(rules: Rules, _: Observed, folded: Path) -> Graph:
    from viz.page.flame_graphs import pmp_graph

    return pmp_graph(stacks_of(pmp_profile(folded.parent, rules.categories), "owner"))


def _panel(seen: Observed) -> Markup:
    from viz.page.rendering import section_markup

    pmp = seen.of(Files.PMP, Pmp)
    locks = locks_section(seen.the(Files.LOCKS, Locks), pmp)
    return section_markup([*pmp_section(pmp), *locks] if pmp is not None else locks)


INSTRUMENT = Instrument(
    "pmp",
    order=6,
    observer=_observer,
    result=Files.PMP,
    reads={Files.PMP: lambda path: read_pmp(path.parent), Files.LOCKS: lambda path: read_locks(path.parent)},
    analyse=_checks,
    parts={
        "pmp": Part("every thread by wall clock", Files.PMP, _pmp),
        "locks": Part("who waits for which lock", Files.LOCKS, _locks),
    },
    panels=[Panel("Locks", "pmp", 5, [Files.LOCKS], _panel)],
    flame=Flame(Files.PMP_FOLDED, lambda run, rules: draw(run.directory, rules), _graph),
    profile=(Files.PMP_PROFILE, ("stopped", "ns")),
    names=True,
    one_process=True,
    holds=True,
    ends_itself=True,
    takes_turns=True,
)
