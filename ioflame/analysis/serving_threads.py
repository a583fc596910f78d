"""Which threads' waits are those of queries."""

from __future__ import annotations

from ground.results.off_cpu import OffCpu, Thread
from ground.results.record import RunRecord
from ground.results.roles import query_role
from workloads.registry import engine_named, service_named


def serving_threads(off: OffCpu, record: RunRecord) -> list[Thread]:
    """Those whose waits are a query's: of its role where a workload writes, else all that work but the engine's own,
    and those that a service's rules know to serve none."""
    if record.roles:
        tids = record.roles.get(query_role(record.roles), [])
        return [one for one in off.threads if one.tid in tids]
    working = [one for one in off.threads if not one.is_idle]
    if record.target is not None:
        groups = [group.name for group in service_named(record.engine).group if group.background]
        own = {tid for name in groups for tid in record.target.groups.get(name, [])}
        return [one for one in working if one.tid not in own]
    background = tuple(engine_named(record.engine).about.background_threads)
    return [one for one in working if not one.comm.startswith(background)]
