"""A sampling of all threads of a process: taken, folded, drawn, and who waits for which lock."""

from __future__ import annotations

from pathlib import Path

from collectors.pmp import PmpPlan, Sampling
from collectors.pmp_checks import pmp_checks
from folding.locks import lock_report, read_rules
from folding.pmp import fold_pmp
from ground.results.files import Files
from ground.results.pmp import Locks, Pmp, read_pmp, write
from ground.results.run import Run, check_writable, new_directory
from ground.system.held_process import HeldProcess
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.stages.rules import rules_of
from ioflame.stages.shown import Shown
from viz.flame.stacks import by_name, stacks_of
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.terminal.pmp import render_locks, render_pmp
from viz.weights import scaled_weight
from workloads.registry import Rules

__all__ = ("analyse_pmp", "sample_pmp", "show_pmp")


def sample_pmp(plan: PmpPlan, pid: int, seconds: float, out: Path, reporter: Reporter) -> tuple[Path, bool]:
    """The new directory in `out` with what was sampled, and whether it was cut short by the user."""
    HeldProcess(pid)  # before there is a directory for it
    check_writable(out)
    interrupted = False
    with Children() as children:
        directory = new_directory(out, f"pmp-{pid}")
        sampling = Sampling(children, plan, pid, directory)
        doing = f"sampling process {pid}: {sampling.what}"
        with reporter.stage(doing, seconds), attached(sampling, reporter):
            sampling.open()
            try:
                sampling.wait(seconds)
            except KeyboardInterrupt:
                interrupted = True
            sampling.close()
    return directory, interrupted


def analyse_pmp(directory: Path, rules: Rules, reporter: Reporter) -> tuple[Pmp, Locks]:
    """Folds, draws and reports what a sampling left in `directory`; replaces its own outputs only."""
    pmp = read_pmp(directory)
    with reporter.stage("fold the stacks and find their names"):
        profile = fold_pmp(directory, rules.categories)
    locks = lock_report(profile.each_stack("owner"), read_rules(rules.locks))
    write(locks, directory / Files.LOCKS)
    options = FlamegraphOptions(
        title=f"wall clock of process {pmp.pid}, {len(pmp.threads)} threads",
        subtitle=f"{scaled_weight(pmp.weight_ns, 'ns')} of thread time in {pmp.samples:,} samples, {pmp.sampler}; "
        "the topmost frame is the thread's state",
        unit="ns",
    )
    write_flamegraph(by_name(stacks_of(profile, "owner")), options, directory / Files.PMP_FLAMEGRAPH)
    return pmp, locks


def show_pmp(run: Run) -> Shown:
    """The same of a run's own sampling; its tables, and what has to be said of it."""
    pmp, locks = analyse_pmp(run.directory, rules_of(run), Reporter(quiet=True))
    return Shown(render_pmp(pmp) + "\n\n" + render_locks(locks, pmp.activity), pmp_checks(pmp))
