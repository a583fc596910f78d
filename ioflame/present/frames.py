"""Runs as sides of a comparison of frames."""

from __future__ import annotations

from collections.abc import Iterable

from folding.frames import ProfileRun
from ground.results.files import Files
from ground.results.run import Run
from ioflame.analysis.categories import cpu_of_all_roles


def profile_runs(runs: Iterable[Run]) -> list[ProfileRun]:
    """The profiles of those runs that have one, with the CPU per query that it represents: each a session of its own.

    A profile represents the CPU per query of the run's plain windows, as every table of the run does; where a workload
    writes, that of all its threads, since all are in the profile.
    """
    found = []
    for run in runs:
        record = run.record
        cost = cpu_of_all_roles(record) if record.profile else None
        counted = [window.counters for window in record.windows if window.kind == "perf"]
        queries = sum(counters.queries or 0 for counters in counted)
        if cost and not queries:
            # Where the client told none in that window: as many as its CPU time allows.
            queries = round(sum(counters.cpu_ns for counters in counted) / 1e3 / cost)
        if cost and queries and run.path(Files.PROFILE).exists():
            found.append(ProfileRun(run.path(Files.PROFILE), queries, cost, run.directory.name))
    return found
