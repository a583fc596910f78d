"""`perf`: where the CPU goes. What follows from its recording is the run's own profile (`stages/run.py`)."""

from __future__ import annotations

from collectors.perf import Recording
from ground.results.files import Files
from ground.results.record import ProfileFacts
from ground.system.observer import Observer
from ioflame.instruments.instrument import Instrument, ObserverContext


def _observer(context: ObserverContext) -> Observer:
    plan, run = context.plan, context.run
    run.record.profile = ProfileFacts(
        plan.event, "", plan.frequency, plan.scope, plan.callgraph, list(plan.why), beside=list(plan.beside),
        trials=dict(plan.trials),
    )  # fmt: skip
    return Recording(context.children, plan, context.pids, run.path(Files.PERF_DATA), run.path("perf.log"))


INSTRUMENT = Instrument(
    "perf",
    order=1,
    observer=_observer,
    result=Files.PERF_DATA,
    profile=(Files.PROFILE, None),
    by_default=True,
    needed=True,
    takes_turns=True,
    time_share=4,  # categories need the most samples
)
