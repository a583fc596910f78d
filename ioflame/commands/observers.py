"""The observers of a profile by name: where a room joins the schedule of windows, and what follows from its file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from collectors.counters import device_of
from collectors.perf import Plan, Recording
from collectors.pmp import PmpPlan, Sampling
from collectors.pmp_checks import pmp_checks
from ebpf.iolat import IoLatencyRequest, io_latency_observer
from ebpf.ladder import LadderRequest, ladder_checks, ladder_observer
from ebpf.offcpu import off_cpu_observer
from ebpf.runqlat import run_queue_observer
from ioflame.checks import Check, Verdict
from ioflame.commands import ebpf_iolat, ebpf_runqlat
from ioflame.commands.ebpf_program import Shown
from ioflame.commands.job import Job
from ioflame.commands.pmp import analyse_pmp
from ioflame.commands.wallclock import show_off_cpu
from ioflame.errors import IoflameError
from ioflame.files import Files
from ioflame.ladder import read_ladder
from ioflame.latency import read_io_latency
from ioflame.metrics import window_metrics
from ioflame.observer import NullObserver, Observer
from ioflame.process import Child, Children
from ioflame.progress import Reporter
from ioflame.record import ProfileFacts
from ioflame.run import Run
from ioflame.whole import read_json
from viz.ladder import ladder_text
from viz.layers import layers_text
from viz.pmp import render_locks, render_pmp

__all__ = ("Watched", "observer_named", "show_observed")


# The edges of a window and those of what was counted in it are microseconds apart.
_UNSEEN = 0.01


@dataclass
class Watched:
    """What an observer may know of the run it watches.

    child: the workload as it was started; pid: of the engine, which is the child or below it
    plan:  perf's, as the trial after the warm-up left it
    """

    job: Job
    run: Run
    children: Children
    child: Child
    pid: int
    plan: Plan


@dataclass(frozen=True)
class Watcher:
    """How one observer joins a profile.

    observer: not attached yet; HostError where this host cannot run it
    result:   the file it leaves in the run directory
    show:     what follows from that file, which is there: files of its own, a part of the summary, checks
    """

    observer: Callable[[Watched], Observer]
    result: str
    show: Callable[[Run], Shown] | None = None


def observer_named(name: str, watched: Watched) -> Observer:
    """The observer of that name (one of `COLLECTORS`), not attached yet. HostError where this host cannot run it."""
    return _WATCHERS[name].observer(watched)


def show_observed(run: Run) -> list[Shown]:
    """What follows from each result that lies in the run directory, in the order of the windows.

    The latency table, which is of several results, comes first. A result that cannot be read is a failed check, and the
    others are shown.
    """
    shown = [Shown(_layers(run), [])]
    for name, watcher in _WATCHERS.items():
        if watcher.show is None or not run.path(watcher.result).exists():
            continue
        try:
            found = watcher.show(run)
            edges = [] if name == "pmp" else _window_checks(run, name, watcher.result)  # it says why it ended itself
            shown.append(Shown(found.text, [*found.checks, *edges]))
        except IoflameError as error:
            shown.append(Shown("", [Check(name, Verdict.FAILED, error.what, error.means, error.mend)]))
    return shown


class _Edges(msgspec.Struct):
    """Of any result: CLOCK_MONOTONIC, ns."""

    start_ns: int
    end_ns: int


def _window_checks(run: Run, name: str, result: str) -> Iterator[Check]:
    """Whether it counted all the time of its window: a program that gets a signal ends early, with what it has."""
    edges = read_json(run.path(result), _Edges)
    for window in run.record.windows:
        seen = min(edges.end_ns, window.end_ns) - max(edges.start_ns, window.start_ns)
        whole = window.end_ns - window.start_ns
        if window.kind == name and seen < (1 - _UNSEEN) * whole:
            yield Check(
                f"{name} window",
                Verdict.FAILED,
                f"{max(seen, 0) / 1e9:.1f} of its {whole / 1e9:.1f} s were seen",
                "its program was ended before the window was: the figures are of that time alone",
                "run it again",
            )


def _layers(run: Run) -> str:
    ladder = io = None
    # What cannot be read is said where its own part would be.
    with contextlib.suppress(IoflameError):
        ladder = read_ladder(run.path(Files.LADDER))
    with contextlib.suppress(IoflameError):
        io = read_io_latency(run.path(Files.IO_LATENCY))
    return layers_text(run.record.metrics, ladder, io)


def _perf(watched: Watched) -> Observer:
    plan, run = watched.plan, watched.run
    run.record.profile = ProfileFacts(plan.event, "", plan.frequency, plan.scope, plan.callgraph, list(plan.why))
    return Recording(watched.children, plan, watched.pid, run.path(Files.PERF_DATA), run.path("perf.log"))


def _iolat(watched: Watched) -> Observer:
    device = device_of(watched.job.db_dir)
    request = IoLatencyRequest([watched.pid], (device.major, device.minor))
    return io_latency_observer(request, watched.children, watched.run.path(Files.IO_LATENCY))


def _ladder(watched: Watched) -> Observer:
    request = LadderRequest(watched.pid, watched.job.options.ladder_sample)
    return ladder_observer(request, watched.children, watched.run.path(Files.LADDER))


def _show_ladder(run: Run) -> Shown:
    ladder = read_ladder(run.path(Files.LADDER))
    windows = [window for window in run.record.windows if window.kind == "ladder"]
    rx_lat = window_metrics(windows, run.record.threads).get("rx.lat")
    return Shown(ladder_text(ladder, rx_lat), ladder_checks(ladder, rx_lat))


def _off_cpu(watched: Watched) -> Observer:
    run = watched.run
    return off_cpu_observer(watched.children, watched.pid, run.path(Files.OFF_CPU), run.path(Files.OFF_CPU_DATA))


def _run_queue(watched: Watched) -> Observer:
    return run_queue_observer(watched.children, watched.pid, watched.run.path(Files.RUN_QUEUE))


def _pmp(watched: Watched) -> Observer:
    return Sampling(watched.children, PmpPlan(), watched.pid, watched.run.directory)


def _show_pmp(run: Run) -> Shown:
    pmp, locks = analyse_pmp(run.directory, run.record.engine, Reporter(quiet=True))
    return Shown(render_pmp(pmp) + "\n\n" + render_locks(locks, pmp.activity), pmp_checks(pmp))


_WATCHERS: Mapping[str, Watcher] = {
    "perf": Watcher(_perf, Files.PERF_DATA),
    "iolat": Watcher(_iolat, Files.IO_LATENCY, lambda run: ebpf_iolat.PROGRAM.show(run.path(Files.IO_LATENCY))),
    "ladder": Watcher(_ladder, Files.LADDER, _show_ladder),
    "offcpu": Watcher(_off_cpu, Files.OFF_CPU, show_off_cpu),
    "runqlat": Watcher(_run_queue, Files.RUN_QUEUE, lambda run: ebpf_runqlat.PROGRAM.show(run.path(Files.RUN_QUEUE))),
    "pmp": Watcher(_pmp, Files.PMP, _show_pmp),
    "null": Watcher(lambda _: NullObserver(), ""),
}
