"""A target through its windows: plain, observed, plain ...; what it did is analysed as a profile's workload is."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from ground.results.record import Unobserved
from ground.results.run import Run
from ground.text.progress import Reporter
from ioflame.instruments import INSTRUMENTS
from ioflame.measure.attach.budget import allowed_seconds
from ioflame.measure.attach.job import AttachJob
from ioflame.measure.attach.redact import redacted
from ioflame.measure.attach.watching import WHOLE, Part, Watching, watching
from ioflame.measure.jobs import clock_pair, note_jobs
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from workloads.registry import files_reader

# A second of each window, and perf four.
LEAST_SECONDS = 5.0


def attach(job: AttachJob, run: Run, reporter: Reporter, unlimited: str = "", part: Part = WHOLE) -> None:
    """Watches the target, and analyses what was recorded, all into `run`; `latest` points to it then.

    unlimited: why our processes are in no control group that bounds their CPU; "" where they are
    part: of its life, which is watched alone
    MeasurementError where nothing could be seen at all; a target that ends sooner leaves what was seen until then.
    """
    with redacted(job, run):
        with watching(job, run, reporter, part, unlimited) as watched:
            began = clock_pair()
            _run_windows(watched)
            database = job.database_of(job.target.running)
        if database is not None and job.redaction is None:
            note_jobs(run, files_reader(job.engine), database, began, lambda: bool(job.target.running))
        # What follows may take its time: the service goes first.
        os.nice(10)
        write_pages(run, analyse(run, reporter), reporter)
    run.point_latest()


def recorded_share(collect: Sequence[str]) -> float:
    """Of all the seconds, the part in which perf records."""
    return INSTRUMENTS["perf"].time_share / parts_of_seconds(collect) if "perf" in collect else 0.0


def parts_of_seconds(collect: Sequence[str]) -> int:
    """Of all the seconds: how they are shared out; plain windows have one each."""
    return len(collect) + 1 + sum(INSTRUMENTS[name].time_share for name in collect)


def _run_windows(watched: Watching) -> None:
    options, windows = watched.job.options, watched.windows
    collect = options.collect
    part = options.seconds / parts_of_seconds(collect)
    missing = watched.run.record.missing
    missing[:] = [f"plain and {', '.join(collect)} windows"]
    watched.keep_names()
    watched.plain(part)
    if watched.job.options.symbol is not None and not windows.ended:
        watched.count_calls(max(options.seconds / 30, 1.0))
    for name in collect:
        if windows.ended:
            if options.asked_to_collect:
                rest = [
                    Unobserved(one, "the target ended before its window", "", True) for one in _after(name, collect)
                ]
                watched.run.record.unobserved += rest
            break
        missing[:] = [f"the {other} window" for other in _after(name, collect)]
        left = [INSTRUMENTS[other].time_share for other in _after(name, collect)]
        watched.observed(name, part * left[0], _left(watched) * left[0] / sum(left))
        if not windows.ended:
            watched.plain(part)


def _after(name: str, collect: Sequence[str]) -> Sequence[str]:
    """It, and what follows it."""
    return collect[collect.index(name) :]


def _left(watched: Watching) -> float:
    """CPU seconds that are left of the budget, by what the target used so far; no bound without one."""
    options, cost = watched.job.options, watched.cost
    if options.budget is None:
        return math.inf
    plain = [window for window in watched.windows.windows() if window.kind == "plain"]
    cost.allowed = allowed_seconds(options.budget, options.period, plain)
    return max(cost.allowed - sum(cost.seconds.values()), 0.0)
