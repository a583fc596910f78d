"""`pmp`: every thread of a process by wall clock, and who waits for which lock: the poor man's profiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from collectors.pmp import Sampling
from collectors.pmp_checks import pmp_checks
from collectors.pmp_plan import PmpPlan
from folding.locks import lock_report, read_rules
from folding.pmp import fold_pmp, pmp_profile
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.results.pmp import Locks, LockSite, Pmp, read_locks, read_pmp, write
from ground.results.run import Run, read_or_none
from ground.system.observer import Observer
from ground.text.tsv import Row
from ioflame.instruments.instrument import Flame, Instrument, Part, Watched, made
from viz.flame.stacks import by_name, stacks_of
from viz.page.run_view import Graph, Observed, Panel
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.terminal.pmp import render_locks, render_pmp
from viz.weights import scaled_weight
from workloads.registry import Rules


def _observer(watched: Watched) -> Observer:
    return Sampling(watched.children, PmpPlan(), watched.pids[0], watched.run.directory)


def analyse(directory: Path, rules: Rules) -> tuple[Pmp, Locks]:
    """Folds what a sampling left in `directory`, and finds who waits for which lock; replaces its own outputs only."""
    profile = fold_pmp(directory, rules.categories)
    locks = lock_report(profile.each_stack("owner"), read_rules(rules.locks))
    write(locks, directory / Files.LOCKS)
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


def _locks(run: Run) -> str:
    return render_locks(read_locks(run.directory), read_pmp(run.directory).activity)


def _tables(run: Run) -> dict[str, Sequence[Row]]:
    pmp = read_pmp(run.directory)
    threads = [
        {"tid": thread.tid, "thread": thread.name, "state": state, **dataclasses.asdict(tally)}
        for thread in pmp.threads
        for state, tally in thread.states.items()
    ]
    return {
        "pmp_states": [{"state": state, **dataclasses.asdict(tally)} for state, tally in pmp.states.items()],
        "pmp_threads": threads,
        "pmp_places": [dataclasses.asdict(place) for place in pmp.places],
    }


def _lock_tables(run: Run) -> dict[str, Sequence[Row]]:
    locks = read_locks(run.directory)
    totals = ("total", "waiting", "running", "conditions", "blocked_elsewhere", "idle")

    def sites(some: Sequence[LockSite]) -> list[Row]:
        return [
            {
                "place": site.place, "kind": site.kind, "category": site.category,
                "waiting_samples": site.waiting.samples, "waiting_ns": site.waiting.weight_ns,
                "running_samples": site.running.samples, "running_ns": site.running.weight_ns,
            }
            for site in some
        ]  # fmt: skip

    return {
        "locks": [{"what": name, **dataclasses.asdict(getattr(locks, name))} for name in totals],
        "lock_sites": sites(locks.sites),
        "lock_owners": sites(locks.owners),
        "condition_sites": sites(locks.condition_sites),
    }


def _checks(run: Run, rules: Rules) -> list[Check]:
    pmp, _ = analyse(run.directory, rules)
    return pmp_checks(pmp, read_or_none(run.path(Files.OFF_CPU), read_off_cpu))


def _graph(rules: Rules, _: Observed, folded: Path) -> Graph:
    from viz.page.flame_graphs import pmp_graph

    return pmp_graph(stacks_of(pmp_profile(folded.parent, rules.categories), "owner"))


def _panel(seen: Observed) -> Markup:
    from viz.page.locks import lock_panel

    return lock_panel(seen.the(Files.LOCKS, Locks), seen.of(Files.PMP, Pmp))


INSTRUMENT = Instrument(
    "pmp",
    place=6,
    observer=_observer,
    result=Files.PMP,
    reads={Files.PMP: lambda path: read_pmp(path.parent), Files.LOCKS: lambda path: read_locks(path.parent)},
    analyse=_checks,
    parts={
        "pmp": Part(
            "every thread by wall clock",
            Files.PMP,
            made(lambda run: render_pmp(read_pmp(run.directory)), _tables),
        ),
        "locks": Part(
            "who waits for which lock",
            Files.LOCKS,
            made(_locks, _lock_tables),
        ),
    },
    panels=[Panel("Locks", "pmp", 5, [Files.LOCKS], _panel)],
    flame=Flame(Files.PMP_FOLDED, lambda run, rules: draw(run.directory, rules), _graph),
    profile=(Files.PMP_PROFILE, ("stopped", "ns")),
    names=True,
    one_process=True,
    holds=True,
    ends_itself=True,
)
