"""The observers of a profile by name: where a room joins the schedule of windows, and what follows from its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from collectors.counters import Device, device_of
from collectors.perf import Plan, Recording
from collectors.pmp import PmpPlan, Sampling
from ebpf.iolat import EVENTS_CHECK, IoLatencyRequest, io_latency_observer
from ebpf.ladder import LadderRequest, ladder_observer
from ebpf.offcpu import off_cpu_observer
from ebpf.runqlat import run_queue_observer
from ground.errors import IoflameError, MeasurementError
from ground.results.checks import Check, Verdict
from ground.results.files import Files
from ground.results.record import ProfileFacts
from ground.results.run import Run
from ground.system.atomic_files import read_json
from ground.system.observer import NullObserver, Observer
from ground.system.process import Children
from ioflame.present.parts import layers
from ioflame.stages.off_cpu import show_off_cpu
from ioflame.stages.pmp import show_pmp
from ioflame.stages.shown import Shown, ladder_of_run, show_io_latency, show_run_queue

if TYPE_CHECKING:
    from ioflame.measure.job import Job

__all__ = ("Watched", "observer_named", "show_observed")


# The edges of a window and those of what was counted in it are microseconds apart.
_UNSEEN = 0.01


@dataclass
class Watched:
    """What an observer may know of the run it watches.

    pids:   the processes; what can look at one alone looks at the first
    plan:   perf's, as the trial after the warm-up left it
    device: None where the processes have no file on any
    symbols, ladder_sample: of the engine, for the ladder
    """

    run: Run
    children: Children
    pids: Sequence[int]
    plan: Plan
    device: Device | None
    symbols: Path
    ladder_sample: int

    @classmethod
    def of_job(cls, job: Job, run: Run, children: Children, pid: int, plan: Plan) -> Watched:
        """A workload of ours. pid: of the engine"""
        symbols = job.engine.file("symbols.toml")
        return cls(run, children, [pid], plan, device_of(job.db_dir), symbols, job.options.ladder_sample)


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
    shown = [Shown(layers(run), [])]
    for name, watcher in _WATCHERS.items():
        if watcher.show is None or not run.path(watcher.result).exists():
            continue
        try:
            found = watcher.show(run)
            edges = [] if name == "pmp" else _window_checks(run, name, watcher.result)  # it says why it ended itself
            shown.append(Shown(found.text, [*found.checks, *edges]))
        except IoflameError as error:
            shown.append(Shown("", [_unreadable(run, name, error)]))
    return shown


def _unreadable(run: Run, name: str, error: IoflameError) -> Check:
    if run.record.target is not None and run.record.target.redacted:
        # Words of other programs may hold names.
        return Check(name, Verdict.FAILED, "its result cannot be read", "", "without --redact it is said why")
    return Check(name, Verdict.FAILED, error.what, error.means, error.mend)


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


def _perf(watched: Watched) -> Observer:
    plan, run = watched.plan, watched.run
    run.record.profile = ProfileFacts(plan.event, "", plan.frequency, plan.scope, plan.callgraph, list(plan.why))
    return Recording(watched.children, plan, watched.pids, run.path(Files.PERF_DATA), run.path("perf.log"))


def _iolat(watched: Watched) -> Observer:
    device = watched.device
    if device is None:
        raise MeasurementError(
            "the target has no file open on a block device",
            means="there is no device whose requests could be looked at",
            mend="--device DIR   (a directory on the device that it uses)",
        )
    # Of a target the children that it will have, too; a workload of ours has none.
    request = IoLatencyRequest(watched.pids, (device.major, device.minor), watched.run.record.target is not None)
    return io_latency_observer(request, watched.children, watched.run.path(Files.IO_LATENCY))


def _ladder(watched: Watched) -> Observer:
    request = LadderRequest(watched.pids[0], watched.ladder_sample, symbols=watched.symbols)
    return ladder_observer(request, watched.children, watched.run.path(Files.LADDER))


def _off_cpu(watched: Watched) -> Observer:
    run = watched.run
    return off_cpu_observer(watched.children, watched.pids[0], run.path(Files.OFF_CPU), run.path(Files.OFF_CPU_DATA))


def _run_queue(watched: Watched) -> Observer:
    return run_queue_observer(watched.children, watched.pids[0], watched.run.path(Files.RUN_QUEUE))


def _pmp(watched: Watched) -> Observer:
    return Sampling(watched.children, PmpPlan(), watched.pids[0], watched.run.directory)


def _show_io_latency(run: Run) -> Shown:
    shown = show_io_latency(run.path(Files.IO_LATENCY))
    if run.record.target is None:
        return shown
    # That a service needs no storage for a while is nobody's failure.
    return Shown(shown.text, [replace(c, verdict=Verdict.NOTE) if c.name == EVENTS_CHECK else c for c in shown.checks])


_WATCHERS: Mapping[str, Watcher] = {
    "perf": Watcher(_perf, Files.PERF_DATA),
    "iolat": Watcher(_iolat, Files.IO_LATENCY, _show_io_latency),
    "ladder": Watcher(_ladder, Files.LADDER, ladder_of_run),
    "offcpu": Watcher(_off_cpu, Files.OFF_CPU, show_off_cpu),
    "runqlat": Watcher(_run_queue, Files.RUN_QUEUE, lambda run: show_run_queue(run.path(Files.RUN_QUEUE))),
    "pmp": Watcher(_pmp, Files.PMP, show_pmp),
    "null": Watcher(lambda _: NullObserver(), ""),
}
