"""The observers of a profile by name: where a room joins the schedule of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collectors.perf import Plan, Recording
from ioflame.commands.job import Job
from ioflame.observer import NullObserver, Observer
from ioflame.process import Child, Children
from ioflame.run import Files, ProfileFacts, Run

__all__ = ("Watched", "observer_named")


@dataclass
class Watched:
    """What an observer may know of the run it watches; plan: perf's, as the trial after the warm-up left it."""

    job: Job
    run: Run
    children: Children
    child: Child
    plan: Plan


def observer_named(name: str, watched: Watched) -> Observer:
    """The observer of that name (one of `COLLECTORS`), not attached yet. HostError where this host cannot run it."""
    return _OBSERVERS[name](watched)


def _perf(watched: Watched) -> Observer:
    plan, run = watched.plan, watched.run
    run.record.profile = ProfileFacts(plan.event, "", plan.frequency, plan.scope, plan.callgraph, list(plan.why))
    return Recording(watched.children, plan, watched.child.pid, run.path(Files.PERF_DATA), run.path("perf.log"))


def _null(_: Watched) -> Observer:
    return NullObserver()


_OBSERVERS: Mapping[str, Callable[[Watched], Observer]] = {"perf": _perf, "null": _null}
